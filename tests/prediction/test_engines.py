"""The table of engine what-ifs: which recordings are pairs, what was measured, and that the page holds what is made."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from math import log, sqrt
from pathlib import Path
from statistics import fmean

import pytest

from diagnostics.forecast.engine_window import measured_engine, points_of, shown_part
from diagnostics.forecast.engines import BETWEEN_SERVERS
from diagnostics.forecast.performance import Estimate
from diagnostics.signals.signal import Subject
from tests.prediction.engines import (
    FOLDERS,
    EnginePair,
    EngineRecording,
    engine_lines,
    evidence_of,
    measured,
    pair_line,
    pairs,
    recordings,
    result,
    score_of,
)
from tests.prediction.readme import ENGINES, block_lines

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/predictions.md"
LOAD = {"model": "chat", "rate": 6.0, "words": 100, "wanted": 11, "later": 0, "start": 0.0, "end": 0.0, "clients": 0}
BESIDE = {"turns": [0.0, 0.0], "memory_left": 0, "hogs": 0, "events": []}


def recording(name: str = "a", **other: object) -> EngineRecording:
    """Return a recording with other limits (`slots`, `tokens`, `budget`), load or neighbours."""
    engine = {"slots": 4, "tokens": 1024, "budget": 256, "block": 32}
    values = {**engine, **LOAD, **BESIDE, **other}
    incident = {
        "deployment": {"engine": {key: values[key] for key in engine}, "second": None},
        "loads": [{key: values[key] for key in LOAD}],
        "beside": {key: values[key] for key in BESIDE},
    }
    requests = [[4.0, "chat", 150.0 + 10 * number, 50.0 + 10 * number, 200] for number in range(20)]
    return EngineRecording(capture=Path(f"{name}.tar.xz"), incident=incident, requests=requests)


@pytest.mark.parametrize(
    ("other", "is_pair"),
    [
        ({"slots": 8}, True),
        ({"budget": 512}, True),
        ({"rate": 3.0, "wanted": 40}, True),
        ({}, False),
        ({"slots": 8, "budget": 512}, False),
        ({"slots": 8, "rate": 3.0}, False),
        ({"block": 16}, False),
        ({"clients": 3}, False),
    ],
)
def test_a_pair_differs_in_one_limit_or_in_the_load_alone(other: dict[str, object], is_pair: bool) -> None:
    found = pairs([recording(), recording("b", **other)])

    assert [pair.names for pair in found] == ([("a", "b"), ("b", "a")] if is_pair else [])


def test_what_differs_is_asked_for_as_on_the_command_line() -> None:
    limits = EnginePair(before=recording(), after=recording("b", slots=8)).request()
    load = EnginePair(before=recording(), after=recording("b", rate=3.0, wanted=44)).request()

    assert limits.settings == ("engine.engine.max_batch_size=8",)
    assert (load.rate, load.output_tokens, load.prompt_tokens) == ("0.5x", "4x", None)


def test_what_clients_measured_leaves_out_the_first_seconds() -> None:
    early = [0.5, "chat", 9_000.0, 8_000.0, 200]
    one = recording()
    seen = measured(EngineRecording(capture=one.capture, incident=one.incident, requests=[early, *one.requests]))

    assert seen is not None
    assert seen.first == pytest.approx(0.145)
    assert seen.first_p95 == pytest.approx(0.240)
    assert seen.per_token == pytest.approx(0.010)
    assert seen.mean == pytest.approx(0.245)


def test_a_recording_in_which_requests_fail_measures_nothing() -> None:
    one = recording()
    failed = [[5.0, "chat", 15_000.0, 15_000.0, 0]]

    assert (
        measured(EngineRecording(capture=one.capture, incident=one.incident, requests=[*one.requests, *failed])) is None
    )


@pytest.mark.parametrize("other", [{"turns": [1.0, 1.0]}, {"hogs": 8}, {"later": 200}, {"model": "encoder"}])
def test_a_disturbed_recording_is_none_of_a_pair(other: dict[str, object]) -> None:
    assert recording().undisturbed
    assert not recording(**other).undisturbed


def test_recordings_are_read_packed_and_as_they_are_written(tmp_path: Path) -> None:
    one = recording()
    (tmp_path / "engine-1.points.json").write_text(json.dumps({"incident": one.incident, "requests": one.requests}))
    (tmp_path / "engine-1.tar.xz").touch()
    (tmp_path / "engine-2.points.json").write_text(json.dumps({"incident": one.incident, "requests": []}))

    assert [found.name for found in recordings([tmp_path])] == ["engine-1"]
    assert len(recordings([ROOT / folder for folder in FOLDERS])) > 10


def test_the_page_has_every_pair() -> None:
    page = "\n".join(block_lines(PAGE, ENGINES))
    for pair in pairs(recordings([ROOT / folder for folder in FOLDERS])):
        assert " → ".join(pair.numbers) in page


# Of the pairs, those of which every kind of change is one: all of them take a minute.
SHOWN = ("0038 → 0043", "0071 → 0099", "0063 → 0011", "0085 → 0102", "0154 → 0095")


@pytest.mark.parametrize("numbers", SHOWN)
def test_the_page_shows_what_is_predicted(numbers: str) -> None:
    found = pairs(recordings([ROOT / folder for folder in FOLDERS]))
    made = result(next(pair for pair in found if " → ".join(pair.numbers) == numbers))
    page = block_lines(PAGE, ENGINES)

    if made.predicted is not None:
        assert pair_line(made) in page
    else:
        assert any(line.startswith(f"- {made.refused}") and numbers in line for line in page)


def test_a_table_counts_what_is_within_the_goal() -> None:
    assert next(engine_lines([])) == "0 pairs: 0 with numbers, 0 predicted not to keep up, 0 refused."


def test_a_score_is_the_width_and_twenty_times_what_was_missed() -> None:
    made = Estimate(value=0.02, low=0.01, high=0.04)

    assert score_of(made, 0.01) == pytest.approx(log(4))
    assert score_of(made, 0.08) == pytest.approx(log(4) + 20 * log(2))
    assert score_of(made, 0.005) == pytest.approx(log(4) + 20 * log(2))
    assert score_of(Estimate(value=0.02, low=0.01, high=None), 0.5) == pytest.approx(log(1000))


Line = tuple[str, float, float, float, float]


def line_of(recording: EngineRecording) -> Line:
    """Return the deployment, the mean requests that decode, the mean iteration, and both sums of the line's slope."""
    history = evidence_of(recording).evidence.engine_history(Subject(server="triton-0", model="engine"))
    points = points_of(history)
    shown, weight = shown_part(history, measured_engine(history, points)), sum(one.weight for one in points)
    x = sum(one.decoding * one.weight for one in points) / weight
    y = sum(one.seconds * one.weight for one in points) / weight
    square = sum((one.decoding - x) ** 2 * one.weight for one in points)
    return recording.fixed(), x, y, shown * square, sum((one.decoding - x) * one.seconds * one.weight for one in points)


def between(lines: Iterable[Line]) -> float:
    """Return by which part iterations with as many requests differ from one recording of a deployment to the next."""
    found = sorted(lines)
    slope = sum(one[4] for one in found) / sum(one[3] for one in found)
    squares, free = 0.0, 0
    for _, some in groupby(found, key=lambda one: one[0]):
        group = list(some)
        usual = fmean(x for _, x, _, _, _ in group)
        level = [y - slope * (x - usual) for _, x, y, _, _ in group]
        squares += sum((one * len(level) / sum(level) - 1) ** 2 for one in level)
        free += len(level) - 1
    return sqrt(squares / free)


def test_servers_of_one_engine_differ_by_as_much_as_is_stated() -> None:
    """Without any one of the recordings, others differ about as much: no single one tells it."""
    found = recordings([ROOT / FOLDERS[0]])
    alike = [one for one in found if sum(one.fixed() == other.fixed() for other in found) > 1]
    lines = [line_of(one) for one in alike]
    without = [between(lines[:number] + lines[number + 1 :]) for number in range(len(lines))]

    assert len(lines) == 11
    assert 0.9 * min(without) < BETWEEN_SERVERS < max(without) < 1.6 * min(without)


def test_intervals_hold_about_what_they_claim_without_saying_nothing() -> None:
    rows = [
        line.strip("| ").split(" | ")
        for line in block_lines(PAGE, ENGINES)
        if line.startswith(("| TTFT", "| per token", "| whole"))
    ]
    inside = [[int(part) for part in row[4].split(" of ")] for row in rows]

    assert len(rows) == 4
    assert sum(held for held, _ in inside) >= 0.85 * sum(every for _, every in inside)
    assert all(float(row[5].removeprefix("×")) < 4 for row in rows)
