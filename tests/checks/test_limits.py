"""Each limit of each check decides: of two stated situations, 7 % to either side of it, the answers differ.

A limit that moves by a fifth to either side makes one of the pairs agree, and so fails here; that this is so for every
limit of the catalogue is a test of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from diagnostics.checks.catalogue import RegisteredCheck, catalogue
from diagnostics.checks.check import CheckCase, Expected, Fires, Outcome, Quiet, Remedy, Severity
from diagnostics.evidence.ledger import Limit
from diagnostics.signals.signal import Signal
from tests.checks import test_engine_limits, test_gpu_and_host_limits
from tests.checks.limit_pairs import ELSEWHERE, PAIRS, Pair
from tests.checks.stated import WORDS_OF, decided

SIGNALS: Mapping[str, Signal] = {
    signal.name: signal for check in catalogue().values() for case in check.cases for signal in case.readings
} | {signal.name: signal for signal in ELSEWHERE}
LIMITS = tuple((check, name) for check in catalogue().values() for name in check.check.limits)
# Moves of a limit that no pair notices, and why none can.
UNNOTICED: Mapping[tuple[str, str], tuple[tuple[float, ...], str]] = {
    ("kv-cache-thrashing", "engine_max_utilization"): ((0.8, 1.2), "zero stays zero when it is multiplied"),
    ("bursty-arrivals", "queue"): ((0.8,), "what a queue of 4 ms adds is not worth a change by the 5 ms of that limit"),
    ("execution-hung", "queue"): ((0.8,), "what a queue of 4 ms adds is not worth a change by the 5 ms of that limit"),
    ("memory-growth", "growth_in_window"): ((0.8, 1.2), "stated readings span a minute; it decides above an hour"),
}


def word(outcome: Outcome) -> str:
    """Return what an operator would notice: silence, doubt, a word for information, a way around, or a way out."""
    if not isinstance(outcome, Fires):
        return "quiet" if isinstance(outcome, Quiet) else "unknown"
    if outcome.severity is Severity.INFO:
        return "informs"
    return "mitigates" if outcome.suggestion and outcome.suggestion.remedy is Remedy.MITIGATE else "fires"


def stated(pair: Pair, value: float) -> str:
    """Return what the pair's check says of its firing case with the moved signal at a value."""
    found = catalogue()[pair.check]
    firing = [one.readings for one in found.cases if one.expect is Expected.FIRES][pair.case]
    stated = {**{signal.name: reading for signal, reading in firing.items()}, **pair.given, pair.signal: value}
    readings = {SIGNALS[name]: reading for name, reading in stated.items() if name != pair.without}
    return word(decided(found, readings)[0])


@pytest.mark.parametrize("pair", PAIRS, ids=[f"{pair.check} {pair.limit}" for pair in PAIRS])
def test_a_limit_parts_two_situations(pair: Pair) -> None:
    assert stated(pair, pair.below) == pair.says_below
    assert stated(pair, pair.above) == pair.says_above


@pytest.mark.parametrize("pair", PAIRS, ids=[f"{pair.check} {pair.limit}" for pair in PAIRS])
def test_the_two_situations_are_near_and_their_answers_differ(pair: Pair) -> None:
    assert pair.says_below != pair.says_above
    assert 0 < pair.below < pair.above <= 1.2 * pair.below


@contextmanager
def moved(limit: Limit, by: float) -> Iterator[None]:
    """Multiply a limit in place, for all checks that share it."""
    before = limit.value
    object.__setattr__(limit, "value", before * by)
    try:
        yield
    finally:
        object.__setattr__(limit, "value", before)


def holds(claim: Callable[[], None]) -> bool:
    """Return whether a test passes."""
    try:
        claim()
    except AssertionError:
        return False
    return True


def _is_decided(check: str, case: CheckCase) -> None:
    assert WORDS_OF[type(decided(catalogue()[check], case.readings)[0])] is case.expect


def claims(check: str) -> Iterator[Callable[[], None]]:
    """Yield all tests of a check's limits: of its own cases, of this file and of its two siblings."""
    for case in catalogue()[check].cases:
        yield lambda case=case: _is_decided(check, case)  # type: ignore[misc]
    for pair in PAIRS:
        if pair.check == check:
            yield lambda pair=pair: test_a_limit_parts_two_situations(pair)  # type: ignore[misc]
    for engine in test_engine_limits.LIMITS:
        if engine[0] == check:
            yield lambda row=engine: test_engine_limits.test_a_limit_is_where_it_is_stated_to_be(*row)  # type: ignore[misc]
    for machine in test_gpu_and_host_limits.TABLE:
        if machine[0].__name__.rpartition(".")[2].replace("_", "-") == check:  # type: ignore[attr-defined]
            yield lambda row=machine: test_gpu_and_host_limits.test_a_limit_decides(*row)  # type: ignore[misc]


@pytest.mark.parametrize("by", [0.8, 1.2])
@pytest.mark.parametrize(("check", "name"), LIMITS, ids=[f"{check.id} {name}" for check, name in LIMITS])
def test_a_limit_that_moves_by_a_fifth_is_noticed(check: RegisteredCheck, name: str, by: float) -> None:
    factors, why = UNNOTICED.get((check.id, name), ((), ""))
    if by in factors:
        pytest.skip(why)
    limit = check.check.limits[name].value
    with moved(check.check.limits[name], by):
        assert not all(holds(claim) for claim in claims(check.id)), (
            f"no case of {check.id} is within a fifth of the limit {name}: put one at 0.93 and one at 1.07 of it, "
            f"or add a line to tests/checks/limit_pairs.py, as: {check.id} {name} SIGNAL {0.93 * limit:g} fires "
            f"{1.07 * limit:g} quiet"
        )


def test_only_limits_that_exist_have_pairs() -> None:
    known = {(check.id, name) for check, name in LIMITS}

    assert {(pair.check, pair.limit) for pair in PAIRS} <= known
