"""Damaged recordings: never a wrong cause. `python -m tests.captures.damage` draws as many as wanted."""

from __future__ import annotations

import random

import pytest

from tests.captures.damage import DAMAGES, Fate, damaged, main, mutate, recordings
from tests.captures.recorded import scrapes_of

# One or two mutations of every recording there is, of a seed of its own, so that what was mended is not all that is
# tried; `python -m tests.captures.damage` tries as many as one likes.
SEED, COUNT = 7, 90
NAMES = tuple(recordings())
# What was wrong once: (seed, number).
ONCE_WRONG = (17, 19, 28, 118, 433, 611, 705, 744, 764, 897, 923, 932, 1294, 1358, 1437)


@pytest.mark.parametrize("number", range(COUNT))
def test_damage_never_makes_a_wrong_cause(number: int) -> None:
    found = mutate(number, SEED, NAMES)

    assert found.fate not in (Fate.WRONG, Fate.ERROR), str(found)


@pytest.mark.parametrize("number", ONCE_WRONG)
def test_what_was_wrong_once_stays_right(number: int) -> None:
    found = mutate(number, 1, NAMES)

    assert found.fate not in (Fate.WRONG, Fate.ERROR), str(found)


@pytest.mark.parametrize("name", sorted(DAMAGES))
def test_each_damage_alters_a_recording(name: str) -> None:
    whole = scrapes_of("cpu-handed-single-instance")

    assert any(list(DAMAGES[name](whole, random.Random(seed))) != list(whole) for seed in range(5))


def test_a_mutation_is_the_same_each_time_it_is_drawn() -> None:
    first, second = damaged(3, 40, NAMES), damaged(3, 40, NAMES)

    assert first == second


def test_the_command_counts_fates_and_says_which_number_repeats_one(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--count", "2", "--seed", "7"])

    assert code == 0
    assert "2 mutations" in capsys.readouterr().out


def test_the_command_exits_with_one_and_tells_the_number_when_a_cause_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = recordings()["cpu-handed-single-instance"]
    _, healthy = recordings()["cpu-handed-healthy"]
    monkeypatch.setattr("tests.captures.damage.recordings", lambda: {"mislabelled": (path, healthy)})
    monkeypatch.setattr("tests.captures.damage.DAMAGES", {"nothing": lambda scrapes, _: scrapes, "no": lambda s, _: s})

    code = main(["--only", "5"])

    assert code == 1
    assert "WRONG 5 mislabelled" in capsys.readouterr().out

    monkeypatch.setattr("tests.captures.damage.MOST_UNSURE", 0.99)
    assert main(["--only", "5"]) == 0
    assert "wrong, unsure 5 mislabelled" in capsys.readouterr().out
