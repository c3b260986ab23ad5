"""Executions that get longer as their card's clock is held down, and executions that do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from diagnostics.diagnosis.explanation import Explanation
from tests.builders import Counts, Stage, SyntheticTriton, explained, model_config
from tests.builders_machine import machine_window, processes, working

ON_GPU = [{"kind": "KIND_GPU", "count": 1, "gpus": [0]}]
READS, STEP, RATE = 61, 2.0, 12.0
HOT, COOL, SLOW, FAST = 0x40, 0x0, 0.05, 0.03
HIGHEST = 1980.0


def hot(at: float) -> bool:
    return 30 <= at < 90


def reported(seconds: Callable[[float], float]) -> Explanation:
    """Return what is said of a card that is hot for half of the window; an execution takes `seconds` then."""
    spent = [0.0]
    for read in range(1, READS):
        spent.append(spent[-1] + RATE * STEP * seconds((read - 0.5) * STEP))

    def counted(read: int, rows: dict[tuple[str, str], Counts]) -> dict[tuple[str, str], Counts]:
        requests, work = RATE * (100 + STEP * read), 100 * RATE * FAST + spent[read]
        return {
            key: Counts(
                requests=requests, items=requests, executions=requests, infer=work, batches={1: (requests, work)}
            )
            for key in rows
        }

    stage = Stage("tower", rate=RATE, execution=FAST, config=model_config("tower", groups=ON_GPU))
    triton = SyntheticTriton(models=(stage,), interval=STEP, cpu_busy=None, alter=counted)

    def gpus(at: float) -> list[object]:
        clock = {"sm_clock_mhz": 990.0 if hot(at) else HIGHEST, "max_sm_clock_mhz": HIGHEST}
        return [{**working((101, 50)), **clock, "throttle_reasons": HOT if hot(at) else COOL}]

    return explained(machine_window(triton, reads=READS, gpus=gpus, hosts=lambda _: processes(101)))  # type: ignore[arg-type]


def test_executions_that_are_longer_while_the_card_is_hot_lose_what_they_are_longer_by() -> None:
    (found,) = reported(lambda at: SLOW if hot(at) else FAST).actionable

    assert found.check == "gpu-throttled"
    assert found.impact.seconds_per_request == pytest.approx((SLOW - FAST) / 2, rel=0.15)
    assert "up to" not in found.summary


@pytest.mark.parametrize(
    "seconds", [lambda _: FAST, lambda at: SLOW if at < 20 else FAST], ids=["steady", "longer at another time"]
)
def test_executions_that_do_not_step_with_the_clock_lose_nothing_to_it(seconds: Callable[[float], float]) -> None:
    assert "gpu-throttled" not in {one.check for one in reported(seconds).actionable}
