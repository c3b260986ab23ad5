"""The table of engine what-ifs: which recordings are pairs, what was measured, and that the page holds what is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.prediction.engines import (
    FOLDERS,
    EnginePair,
    EngineRecording,
    engine_lines,
    measured,
    pair_line,
    pairs,
    recordings,
    result,
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
