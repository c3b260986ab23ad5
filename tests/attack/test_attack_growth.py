"""What is done to text of others takes twice as long for twice as much, whatever it repeats."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from diagnostics.bench.report import parse_report
from diagnostics.errors import DiagError, MalformedBody, UsageError
from diagnostics.lint.problem import TextFile
from diagnostics.lint.waivers import waivers_of
from diagnostics.render.explanation.graph import WIDE, picture
from diagnostics.render.plain import wrapped
from diagnostics.settings.load import line_of, lines_of, load
from diagnostics.settings.text_file import toml_of
from diagnostics.tuning.changes import changed_settings
from diagnostics.tuning.patch import unified
from diagnostics.tuning.pbtxt import parse
from diagnostics.window.graph import Ensemble
from diagnostics.window.lifecycle import changes_of
from diagnostics.window.logs import MOST_EVENTS, parse_log
from diagnostics.window.parsed import parse_client
from diagnostics.window.traces import SpanStore
from diagnostics.window.window import window_of
from diagnostics.wire import trace_export
from diagnostics.wire.json_body import json_value
from diagnostics.wire.model_config import EnsembleStep, InstanceGroup, ModelConfig, Warmup
from diagnostics.wire.prometheus_answer import parse_answer, parse_values
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.redact import redact, scrub
from diagnostics.wire.saved import recognised
from diagnostics.wire.trace_export import read_triton
from tests.attack.measuring import diag
from tests.builders import explained

LENGTH, DOUBLINGS, ATTEMPTS = 10_000, 3, 3
ENOUGH = 0.1
"""Seconds below which a time says nothing of its growth; at quadratic growth the longest text takes ten seconds."""
FOUR_TIMES_AS_MUCH = 6
"""Times as long may be taken for four times as much: 4 is linear growth, 16 quadratic."""
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


T = TypeVar("T")


def seconds(work: Callable[[T], object], given: T) -> float:
    begun = time.process_time()
    work(given)
    return time.process_time() - begun


def assert_grows_linearly(work: Callable[[T], object], make: Callable[[int], T], count: int) -> None:
    """Hold the work on what is made of growing counts against linear growth, in one of a few attempts.

    Other programs make a time longer, and seldom the same one each time: quadratic growth fails every attempt.
    """
    attempts = []
    for _ in range(ATTEMPTS):
        times = [seconds(work, make(count << doubling)) for doubling in range(DOUBLINGS + 1)]
        if times[-1] < max(ENOUGH, FOUR_TIMES_AS_MUCH * times[-3]):
            return
        attempts.append(times)
    raise AssertionError(f"seconds at each doubling: {attempts}")


def of(unit: str) -> Callable[[int], str]:
    """Return what repeats a unit up to a length."""
    return lambda length: unit * (length // len(unit))


@pytest.mark.parametrize("unit", REPEATED)
def test_the_search_for_secrets_grows_with_the_text(unit: str):
    assert_grows_linearly(scrub, of(unit), LENGTH)


def waivers(text: str) -> object:
    return waivers_of(TextFile(path="a.yaml", text=text))


def place(name: str) -> object:
    return line_of(lines_of("a = 1\n"), name)


def places(text: str) -> object:
    return line_of(lines_of(text), "a.b")


def one_line_document(text: str) -> object:
    file = TextFile(path="a.json", text=text)
    return [file.place(at) for at in range(0, len(text), 10)]


def toml(text: str) -> object:
    with contextlib.suppress(ValueError):
        return toml_of(text)


def settings_file(text: str) -> object:
    """Load a file with as many keys as the text is long."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        with contextlib.suppress(UsageError):
            return load(Path(file.name), {}, {})


def numbered_settings(text: str) -> object:
    return settings_file("[web]\n" + "".join(f"{text[:1]}{number} = 1\n" for number in range(len(text) // 8)))


def changed_model(text: str) -> object:
    """Compare the settings of a model that changed, with as many parts as the text is long."""
    many = range(len(text) // 40)
    sides = [
        ModelConfig(
            name="m",
            parameters={f"{text[:1]}{number}": str(number + side) for number in many},
            instance_groups=tuple(InstanceGroup(name=str(number), gpus=(number + side,)) for number in many),
            ensemble_steps=tuple(EnsembleStep(model=f"{number + side}") for number in many),
            warmups=tuple(Warmup(batch_size=number + side) for number in many),
        )
        for side in (0, 1)
    ]
    return changed_settings("m", *sides)


def changed_file(text: str) -> object:
    return unified(f"first\n{text}\nlast\n", f"FIRST\n{text}\nLAST\n", "m/config.pbtxt")


def configuration(text: str) -> object:
    with contextlib.suppress(MalformedBody):
        return parse(text)


def redacted(body: bytes) -> object:
    return redact(Scrape(server="s", kind=BodyKind.STATISTICS, at=1.0, mono=1.0, body=body))


def report_of(body: bytes) -> object:
    return parse_report(body, "bench.json")


def saved_request(body: bytes) -> object:
    return parse_client(body)


WORK: tuple[tuple[Callable[[str], object], tuple[str, ...]], ...] = (
    (wrapped, ("a", "a ", "-", "a-", "  ", "\n", "\u2003", "\x1b[", "a\u2003")),
    (waivers, ("# diag: ignore [", "# diag: ignore[a]\n", "# diag: ignore[a]\n\n", "# diag:", "x # diag: ignore[a]\n")),
    (place, ("a.", "a")),
    (places, ("[", "[a.b]\n", "[[a]]\n", "a = 1\n", "a.b.", "'", " ", "\n")),
    (one_line_document, ("{}", "[1]")),
    (toml, ("a.", '"a".', "a.b=1\n", "[a.b]\n", "[[a]]\n", "a={", "[", '"\\"', "'", "a . ", "[a.a.a.a.a.a.a.a]\n")),
    (settings_file, ("[web]\n", "a=1\n", "'a.a.a'.", "[[server]]\n")),
    (numbered_settings, ("a",)),
    (changed_model, ("a",)),
    (changed_file, ("a\n", "\n", "a\nb\n", "".join(f"{number}\n" for number in range(500)))),
    (configuration, ("a{", "a:[", "a{}", '"', "a:'", 'a:"b" ', "a:- ", "${", "# \n", 'a:${\\"}', " ")),
)


@pytest.mark.parametrize(("work", "unit"), [(work, unit) for work, units in WORK for unit in units])
def test_work_grows_with_the_text(work: Callable[[str], object], unit: str):
    assert_grows_linearly(work, of(unit), LENGTH)


def test_a_dense_ensemble_is_drawn_in_a_second():
    """Of 100 steps that all feed 100 others, and of 200 that all feed each other, whose edges imply each other."""
    steps = tuple(EnsembleStep(model=f"model-{i}") for i in range(200))
    edges = tuple(tuple(range(100, 200)) if i < 100 else () for i in range(200))
    chain = Ensemble("chain", steps, tuple(tuple(range(i + 1, 200)) for i in range(200)))
    begun = time.process_time()
    drawn = picture(Ensemble("dense", steps, edges), {}, WIDE)
    assert len(picture(chain, {}, WIDE).edges) == 199
    assert time.process_time() - begun < 3  # on a busy machine
    assert len(drawn.edges) == 100 * 100
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


def test_a_diff_of_a_long_file_is_applied_as_one_hunk(tmp_path: Path):
    before = "".join(f"line {number % 7}\n" for number in range(5000))
    after = f"new\n{before}".replace("line 3\n", "other\n", 1)
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.pbtxt").write_text(before)
    text = unified(before, after, "m/config.pbtxt")
    subprocess.run(["git", "apply", "-p1"], input=text, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "m/config.pbtxt").read_text() == after
    assert len(text.splitlines()) < 20
    assert unified(before, before, "m/config.pbtxt") == ""


@pytest.mark.parametrize("head", ['{"other":', '{"schema_version":1,"other":', '{"status":"success","data":'])
@pytest.mark.parametrize("read", [parse_answer, parse_values, report_of], ids=lambda one: one.__name__)
def test_a_typed_decoder_refuses_what_is_nested_without_end(read: Callable[[bytes], object], head: str):
    with pytest.raises(DiagError):
        read(f"{head}{'[' * 100_000}{']' * 100_000}}}".encode())


@pytest.mark.parametrize("text", ["[" * 100_000, "{}," * 2_000_001])
@pytest.mark.parametrize("read", [json_value, recognised, redacted, saved_request], ids=lambda one: one.__name__)
def test_json_without_end_is_one_error_wherever_it_is_read(read: Callable[[bytes], object], text: str):
    """Each of them reads through one bounded decoder, which makes no objects of it."""
    begun = time.process_time()
    with contextlib.suppress(ValueError, MalformedBody):
        read(text.encode())
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("key", ["\\u001b[31mred", "a" * 900_000, "\\u202egpj"])
def test_a_message_is_one_short_line_without_escapes_whatever_a_file_holds(key: str, tmp_path: Path):
    file = tmp_path / "diag.toml"
    file.write_text(f'"{key}" = 1\n')
    ended = diag("serve", "--check-config", "--config.file", file).is_bounded()
    assert ended.code == 2
    assert ended.errors.rstrip("\n").isprintable()
    assert len(ended.errors) < 3000
    assert "there is no such setting" in ended.errors


def trace_file(text: str) -> object:
    """Read a file of Triton's own traces, whose objects are these."""
    with contextlib.suppress(MalformedBody):
        return read_triton(f"[{text}".encode(), lambda _: None)


REQUEST = (
    '{"id":%d,"model_name":"a","parent_id":%d,"timestamps":[{"name":"REQUEST_START","ns":10},{"name":"A","ns":9}]},'
)


@pytest.mark.parametrize(
    "part", [REQUEST, '{"id":', '{"id":"', '{"id":1,"padding":["long enough",', '{"id":%d},        ']
)
def test_a_trace_file_is_read_in_time_that_grows_with_it(part: str):
    """Also one whose requests are each below the one before, and one that can be read nowhere."""
    numbers = part.count("%d")

    def text(count: int) -> str:
        return "".join(part % ((at, at - 1)[:numbers]) for at in range(1, count + 1))

    assert_grows_linearly(trace_file, text, 2_500)


def test_of_a_long_trace_file_the_beginning_is_used_and_the_rest_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace_export, "MOST_OBJECTS", 100)
    store = SpanStore()
    store.add(f"[{''.join(REQUEST % (at, 0) for at in range(1, 200))}".encode(), 1e9)
    assert len(store.held().spans) == 100
    assert "more than 100 objects" in store.counts.reason
    assert "first 100 requests" in store.counts.reason


def logged(count: int) -> object:
    """Tell what happened to a model by a log of as many loads."""
    lines = "".join(f"I0101 00:00:00.000000 1 m.cc:1] successfully loaded 'm1' version {n}\n" for n in range(count))
    log = Scrape(server="s", kind=BodyKind.LOG, at=1.0, mono=1.0, body=lines.encode())
    return changes_of(window_of([log]).servers["s"], "m1")


def idle_models(count: int) -> object:
    """Explain a server with as many models, of which nothing is known but their numbers of requests."""
    entry = '{"name":"m%d","version":"1","inference_stats":{"success":{"count":%d,"ns":%d}}}'
    scrapes = []
    for at in range(4):
        entries = ",".join(entry % (number, 99 * at, 10**9 * at) for number in range(count // 10))
        body = f'{{"model_stats":[{entries}]}}'.encode()
        scrapes.append(Scrape(server="s", kind=BodyKind.STATISTICS, at=2.0 * at, mono=2.0 * at, body=body))
    return explained(window_of(scrapes))


@pytest.mark.parametrize(("work", "count"), [(logged, 2_000), (idle_models, 1_000)])
def test_a_verdict_takes_time_that_grows_with_what_was_read(work: Callable[[int], object], count: int):
    assert_grows_linearly(work, int, count)


def test_of_a_long_log_the_newest_events_are_kept():
    lines = "".join(f"I0101 00:00:00.000000 1 m.cc:1] successfully loaded 'm{n}' version 1\n" for n in range(30_000))
    found = parse_log(lines.encode(), 1.7e9)
    assert (len(found), found[-1].model) == (MOST_EVENTS, "m29999")


def test_linear_growth_passes_beside_noise_and_quadratic_growth_fails(monkeypatch: pytest.MonkeyPatch):
    clock, noise = [0.0], iter([0, 0, 0, 90])

    def linear(count: int) -> None:
        clock[0] += count + next(noise, 0)

    def quadratic(count: int) -> None:
        clock[0] += count**2

    monkeypatch.setattr(time, "process_time", lambda: clock[0])
    assert_grows_linearly(linear, int, 1)
    with pytest.raises(AssertionError, match="at each doubling"):
        assert_grows_linearly(quadratic, int, 1)
