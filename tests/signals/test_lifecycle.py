"""How slow a version was at first, and what requests paid for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Verdict
from diagnostics.signals.lifecycle import (
    COLD_AGAIN,
    COLD_COMPUTE_SECONDS,
    COLD_EXECUTION_SECONDS,
    COLD_QUEUE_SECONDS,
    COLD_SLOWDOWN,
    STEADY_EXECUTION_SECONDS,
)
from diagnostics.signals.signal import Missing, Reading, Signal
from diagnostics.window.window import Window
from diagnostics.wire.records import BodyKind
from tests.builders import Alter, Counts, Stage, SyntheticTriton, explained, model_config, view_of
from tests.builders_traffic import Did, reported

STAGE = Stage("m", rate=10, execution=0.02, version="2", config=model_config("m"))
COLD_STEPS = 2
LOADED = 4


def loaded_cold(cold: float = 0.2, queue: float = 1.0) -> Alter:
    """Let version 2 appear at read 4; the executions of its first two steps take `cold` seconds."""

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> dict[tuple[str, str], Counts]:
        steps = number - LOADED + 1
        if steps <= 0:
            return {}
        requests, slow = 50.0 * steps, 50.0 * min(steps, COLD_STEPS)
        infer = slow * cold + (requests - slow) * 0.02
        row = Counts(
            requests=requests,
            items=requests,
            executions=requests,
            seconds=infer + slow * queue,
            queue=slow * queue,
            infer=infer,
            batches={1: (requests, infer)},
        )
        return dict.fromkeys(rows, row)

    return alter


def read(signal: Signal, alter: Alter, *without: BodyKind, reads: int = 14) -> Reading:
    window = SyntheticTriton(models=(STAGE,), alter=alter).without(*without).window(reads)
    return signal.read(view_of(window, "m", "2"))


@pytest.mark.parametrize("without", [BodyKind.STATISTICS, BodyKind.METRICS])
@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        (COLD_EXECUTION_SECONDS, 0.2),
        (STEADY_EXECUTION_SECONDS, 0.02),
        (COLD_SLOWDOWN, 10),
        (COLD_COMPUTE_SECONDS, 100 * 0.18 / 500),
        (COLD_QUEUE_SECONDS, 100 * 1.0 / 500),
    ],
    ids=lambda value: value.name if isinstance(value, Signal) else "",
)
def test_a_cold_version_costs_its_excess_over_all_requests_since(
    signal: Signal, expected: float, without: BodyKind
) -> None:
    """Ten steps of 50 requests since loading; 100 of them were 180 ms slower and waited a second."""
    assert read(signal, loaded_cold(), without).value == pytest.approx(expected)


def test_a_warm_start_costs_nothing() -> None:
    assert read(COLD_SLOWDOWN, loaded_cold(cold=0.02, queue=0.0)).value == pytest.approx(1)
    assert read(COLD_COMPUTE_SECONDS, loaded_cold(cold=0.02, queue=0.0)).value == 0
    assert read(COLD_QUEUE_SECONDS, loaded_cold(cold=0.02, queue=1.0)).value == 0


def test_a_version_that_stays_slow_is_not_cold() -> None:
    slow = replace(STAGE, execution=0.2)
    window = SyntheticTriton(models=(slow,), before=0.0).window()

    assert COLD_SLOWDOWN.read(view_of(window, "m", "2")).value == pytest.approx(1)


def test_a_version_that_ran_before_the_window_has_no_first_execution_in_it() -> None:
    window = SyntheticTriton(models=(STAGE,)).window()

    assert COLD_SLOWDOWN.read(view_of(window, "m", "2")).value == 0


def test_two_steps_since_loading_are_too_few_to_know_the_steady_time() -> None:
    assert read(COLD_SLOWDOWN, loaded_cold(), reads=LOADED + 2).missing is Missing.TOO_FEW_EVENTS


def test_a_version_that_never_ran_shows_nothing() -> None:
    window = SyntheticTriton(models=(replace(STAGE, rate=0),)).window()

    assert COLD_SLOWDOWN.read(view_of(window, "m", "2")).missing is Missing.NOT_EXPORTED


def test_a_slow_first_execution_is_seen_among_quick_larger_ones_of_its_backlog() -> None:
    """Batches of eight work off what waited for the first of six: they took 20 ms, so six items need no more."""
    mixed = {1: (8.0, 0.1), 6: (1.0, 2.3), 8: (7.0, 0.14)}

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> dict[tuple[str, str], Counts]:
        if number < LOADED:
            return {}
        later = number - LOADED
        batches = {**mixed, 1: (8 + 40.0 * later, 0.1 + 0.5 * later)}
        items = sum(size * count for size, (count, _) in batches.items())
        infer = sum(size * seconds for size, (_, seconds) in batches.items())
        executions = sum(count for count, _ in batches.values())
        row = Counts(
            requests=items, items=items, executions=executions, seconds=infer, queue=0.0, infer=infer, batches=batches
        )
        return dict.fromkeys(rows, row)

    assert (read(COLD_SLOWDOWN, alter).value or 0.0) > 8


SPARSE = Did(requests=3, seconds=0.02, infer=0.02)
AFTER_PAUSE = Did(requests=2, seconds=0.5, infer=0.5)
LOADED_AND_ASKED = [Did(), AFTER_PAUSE]


def asked_rarely(*later: Did, instances: int = 1) -> Window:
    """Return the window of a model that was loaded in it, and whose first executions were slow."""
    story = {("m", "1"): [*LOADED_AND_ASKED, *later]}
    configs = {"m": model_config("m", groups=[{"kind": "KIND_CPU", "count": instances}])}
    return reported(story, configs=configs)


def test_executions_that_are_slow_after_each_pause_are_no_cold_start() -> None:
    """Long after the load, each request after a pause pays again, as for a connection that was closed."""
    window = asked_rarely(*[SPARSE, SPARSE, Did(), AFTER_PAUSE] * 3)
    explanation = explained(window)

    assert COLD_AGAIN.read(view_of(window, "m")).value == pytest.approx(3)
    assert explanation.verdict is not Verdict.HEALTHY
    assert not [one for one in explanation.findings if one.check == "cold-start"]


def test_first_executions_of_other_instances_and_after_other_loads_are_first_ones() -> None:
    later = [*[SPARSE] * 6, AFTER_PAUSE, *[SPARSE] * 6, AFTER_PAUSE, *[SPARSE] * 6]
    window = asked_rarely(*later, instances=2)

    assert COLD_AGAIN.read(view_of(window, "m")).value == pytest.approx(1)
    assert [one for one in explained(window).findings if one.check == "cold-start"]
    assert COLD_AGAIN.read(view_of(asked_rarely(*[SPARSE] * 12), "m")).value == 0
