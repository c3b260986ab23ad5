"""What is done to text of others takes twice as long for twice as much, whatever it repeats."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.lint.text_file import TextFile
from diagnostics.lint.waivers import waivers_of
from diagnostics.render.explanation.graph import WIDE, picture
from diagnostics.render.lines import wrapped
from diagnostics.settings.places import line_of
from diagnostics.tuning.pbtxt import parse
from diagnostics.window.graph import Ensemble
from diagnostics.wire.model_config import EnsembleStep
from diagnostics.wire.secret_shapes import scrub
from tests.attack.measuring import diag

LENGTH, DOUBLINGS = 10_000, 3
ENOUGH = 0.1
"""Seconds below which a time says nothing of its growth; at quadratic growth the longest text takes ten seconds."""
REPEATED = (
    *(
        "a.",
        "aB",
        "A",
        "a+",
        "a-",
        "a=",
        "=",
        "A-Z",
        "://",
        "a://",
        "a:b@",
        "--a ",
        "-a-a ",
        "_",
        '\\"',
        "'",
        " ",
        "\n",
    ),
    *("eyJ", "eyJaaaaaaaa-", "eyJaaaaaaaa.", "eyJaaaaaaaa.a-", "sk-", "ghp_", "AKIA", "bearer ", "basic a ", "token "),
    *("-----BEGIN ", "-----BEGIN A PRIVATE KEY-----", "PRIVATE KEY", "cookie:  ", "authorization:", "password='"),
    *('password="', 'key "', 'key "a" value "', "input_map", "input_map { key: ", 'password=\\"'),
)


def seconds(work: Callable[[str], object], text: str) -> float:
    begun = time.process_time()
    work(text)
    return time.process_time() - begun


@pytest.mark.parametrize("unit", REPEATED)
def test_the_search_for_secrets_grows_with_the_text(unit: str):
    length, took, before = LENGTH, 0.0, 0.0
    for _ in range(DOUBLINGS + 1):
        before, took = took, seconds(scrub, unit * (length // len(unit)))
        length *= 2
    assert took < ENOUGH or took < 3 * before


def waivers(text: str) -> object:
    return waivers_of(TextFile(path="a.yaml", text=text))


def place(name: str) -> object:
    return line_of("a = 1\n", name)


def places(text: str) -> object:
    return line_of(text, "a.b")


def one_line_document(text: str) -> object:
    file = TextFile(path="a.json", text=text)
    return [file.place(at) for at in range(0, len(text), 10)]


def configuration(text: str) -> object:
    with contextlib.suppress(MalformedBody):
        return parse(text)


WORK: tuple[tuple[Callable[[str], object], tuple[str, ...]], ...] = (
    (wrapped, ("a", "a ", "-", "a-", "  ", "\n", "\u2003", "\x1b[", "a\u2003")),
    (waivers, ("# diag: ignore [", "# diag: ignore[a]\n", "# diag: ignore[a]\n\n", "# diag:", "x # diag: ignore[a]\n")),
    (place, ("a.", "a")),
    (places, ("[", "[a.b]\n", "[[a]]\n", "a = 1\n", "a.b.", "'", " ", "\n")),
    (one_line_document, ("{}", "[1]")),
    (configuration, ("a{", "a:[", "a{}", '"', "a:'", 'a:"b" ', "a:- ", "${", "# \n", 'a:${\\"}', " ")),
)


@pytest.mark.parametrize(("work", "unit"), [(work, unit) for work, units in WORK for unit in units])
def test_work_grows_with_the_text(work: Callable[[str], object], unit: str):
    length, took, before = LENGTH, 0.0, 0.0
    for _ in range(DOUBLINGS + 1):
        before, took = took, seconds(work, unit * (length // len(unit)))
        length *= 2
    assert took < ENOUGH or took < 3 * before


def test_a_dense_ensemble_is_drawn_in_a_second():
    """Of 200 steps that all feed each other: led beside the nodes, its edges took 16 s and 137 MB."""
    steps = tuple(EnsembleStep(model=f"model-{i}") for i in range(200))
    edges = tuple(tuple(range(i + 1, 200)) for i in range(200))
    begun = time.process_time()
    drawn = picture(Ensemble("dense", steps, edges), {}, WIDE)
    assert time.process_time() - begun < 3  # on a busy machine
    assert len(drawn.edges) == 199 * 100
    assert sum(map(len, drawn.edges)) < 4e6


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "{a = " * 50_000, "[server]\nurl = " + "[" * 10_000])
def test_settings_nested_without_end_are_one_error(text: str, tmp_path: Path):
    file = tmp_path / "diag.toml"
    file.write_text(text)
    ended = diag("serve", "--check-config", "--config.file", file).is_bounded()
    assert ended.code not in (0, 1)
    assert "nested" in ended.errors
    assert len(ended.errors.splitlines()) <= 3


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_a_saved_body_nested_without_end_is_one_error(text: str, tmp_path: Path):
    file = tmp_path / "statistics.json"
    file.write_text(text)
    ended = diag("explain", file).is_bounded()
    assert ended.code != 0
    assert len(ended.errors.splitlines()) <= 4
