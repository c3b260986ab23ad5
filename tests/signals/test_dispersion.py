"""How much executions vary from read to read, and what that says of a queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from diagnostics.checks.check import Fires, Unknown
from diagnostics.diagnosis.run import Result
from diagnostics.signals.dispersion import EXECUTION_DISPERSION, UNDISTURBED_EXECUTION_SHARE
from diagnostics.signals.signal import Missing, Reading
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind
from tests.builders import START, explained, host_body, model_config, view_of
from tests.builders_machine import body
from tests.builders_traffic import Did, reported, story_scrapes

ONE = model_config("m", groups=[{"kind": "KIND_CPU", "count": 1}])
REQUESTS, READS, USUAL = 40, 16, 0.02


def read(infers: Sequence[float]) -> Reading:
    return EXECUTION_DISPERSION.read(
        view_of(reported({("m", "1"): [Did(requests=REQUESTS, infer=i) for i in infers]}), "m")
    )


def drawn(one: str, seed: int) -> list[float]:
    """Return the mean of each read's executions, which take an exponential or a constant time."""
    chance = Random(seed)
    take = {"exponential": lambda: chance.expovariate(1 / USUAL), "constant": lambda: USUAL}[one]
    return [sum(take() for _ in range(REQUESTS)) / REQUESTS for _ in range(READS)]


def test_constant_executions_do_not_vary() -> None:
    assert read(drawn("constant", 0)).value == pytest.approx(0)


def test_exponential_executions_vary_by_one() -> None:
    """The two largest differences are left out, so that it is rather less than more; no one exceeds it for certain."""
    found = [read(drawn("exponential", seed)) for seed in range(40)]

    assert sum(one.value or 0 for one in found) / len(found) == pytest.approx(0.75, abs=0.2)
    assert not [one for one in found if (one.low or 0) >= 1]


@pytest.mark.parametrize("odd", [[0], [7], [7, 8, 9], list(range(8, READS))], ids=["first", "one", "three", "later"])
def test_one_long_stretch_is_left_out(odd: Sequence[int]) -> None:
    """A cold start, one hiccup, and a change of level are other causes' doing."""
    assert read([USUAL * (3 if at in odd else 1) for at in range(READS)]).value == pytest.approx(0)


def test_executions_that_are_long_now_and_then_vary_by_more() -> None:
    found = read([USUAL * (3 if at % 3 == 0 else 1) for at in range(READS)])

    assert (found.low or 0) > 1


def test_the_undisturbed_share_is_of_the_reads_with_short_executions() -> None:
    infers = [USUAL * (3 if at % 2 else 1) for at in range(READS)]
    view = view_of(reported({("m", "1"): [Did(requests=REQUESTS, infer=i) for i in infers]}), "m")

    assert UNDISTURBED_EXECUTION_SHARE.read(view).value == pytest.approx(0.5)


def test_few_reads_tell_nothing() -> None:
    assert read([USUAL] * 5).missing is Missing.TOO_FEW_EVENTS


def serialization(dids: Sequence[Did]) -> Result:
    scrapes = story_scrapes({("m", "1"): dids}, configs={"m": ONE})
    machine = [body(BodyKind.HOST, 2.0 * at, host_body(START + 2.0 * at, busy=0.2)) for at in range(len(dids) + 1)]
    found = explained(window_of([*scrapes, *machine]))
    (result,) = (one for one in found.results if one.check.id == "single-instance-serialization")
    return result


def waiting(infer: float, queue: float) -> Did:
    return Did(requests=REQUESTS, infer=infer, queue=queue, seconds=queue + infer)


def test_standstills_are_no_lack_of_instances() -> None:
    """Every second read holds a standstill: 20 ms become 60. Without them an instance would be 40 % busy."""
    outcome = serialization([waiting(*((0.06, 0.4) if at % 2 else (0.02, 0.1))) for at in range(READS)]).outcome

    assert isinstance(outcome, Unknown)
    assert outcome.signal == EXECUTION_DISPERSION.name


@pytest.mark.parametrize(
    "dids",
    [
        [waiting(0.04, 0.08)] * READS,
        [waiting(*((0.05, 0.4) if at % 2 else (0.047, 0.3))) for at in range(READS)],
        [waiting(*((0.06, 4.0) if at % 2 else (0.046, 4.0))) for at in range(READS)],
    ],
    ids=["busy at 80 %", "nearly full", "full at quiet times too"],
)
def test_busy_instances_are_named(dids: Sequence[Did]) -> None:
    assert isinstance(serialization(dids).outcome, Fires)


def test_bursts_explain_a_wait() -> None:
    """Requests come 108 at a time, each third read: an instance that is 73 % busy lets those wait, too."""
    dids = [replace(waiting(0.04, 0.6), requests=36, pending=(72, 36, 0)[at % 3]) for at in range(READS + 2)]

    assert isinstance(serialization(dids).outcome, Fires)
