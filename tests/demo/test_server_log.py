"""What is read out of a server's log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from diagnostics.demo.server import last_line, loaded_models, port_taken, start_error

NO_GPU = 'E1127 23:17:19.086774 10589 server.cc:241] "CudaDriverHelper has not been initialized."\n'
LOADED = "I1127 23:17:20.086774 10589 model_lifecycle.cc:839] \"successfully loaded 'safety'\"\n"


def error(text: str) -> str:
    return f'E1127 23:37:17.496728 17519 model_lifecycle.cc:642] "{text}"\n'


def test_the_first_error_is_the_reason_since_later_ones_follow_from_it() -> None:
    log = NO_GPU + error("failed to load 'safety' version 1: SyntaxError") + error("ensemble depends on safety")
    assert start_error(log + "error: creating server: Internal - failed to load all models\n") == (
        "failed to load 'safety' version 1: SyntaxError"
    )


def test_the_lines_below_a_models_exception_are_left_out() -> None:
    assert start_error(error(r"Failed: ValueError: no\n\nAt:\n  /model.py(26): initialize\n")) == (
        "Failed: ValueError: no"
    )


def test_a_refused_option_is_named_and_not_the_last_line_of_the_help() -> None:
    log = "tritonserver: unrecognized option '--no-such'\nUsage: tritonserver [options]\n\tDefault is 0.\n"
    assert start_error(log) == "unrecognized option '--no-such'"


def test_without_an_error_entry_the_last_line_stands_for_it() -> None:
    assert start_error(NO_GPU + LOADED + "Segmentation fault\n\n") == "Segmentation fault"


def test_an_empty_log_is_stated_to_be_empty() -> None:
    assert (start_error(""), last_line(" \n")) == ("it wrote no log", "it wrote no log")


def test_a_taken_port_is_recognized() -> None:
    log = error("failed to start HTTP service: Unavailable - Socket '127.0.0.1:8000' already in use ")
    assert port_taken(log) == "Socket '127.0.0.1:8000' already in use"
    assert port_taken(LOADED) is None


def test_loaded_models_are_counted_once() -> None:
    assert loaded_models(LOADED + LOADED.replace("safety", "embedder") + LOADED) == {"safety", "embedder"}


@given(st.text())
def test_any_log_gives_one_short_line(log: str) -> None:
    reason = start_error(log)
    assert reason
    assert len(reason) <= 300
    assert "\n" not in reason
