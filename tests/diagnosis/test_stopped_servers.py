"""A server that stands still for a while and goes on with what it had: SIGSTOP, a frozen cgroup, a paused machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, Stage, SyntheticTriton, explained, host_body, model_config
from tests.builders_traffic import Did, sent, story_scrapes

PID, SINCE, UNTIL, STEPS = 100, 20.0, 30.0, 30
CONFIG = {"m": model_config("m", groups=({"kind": "KIND_CPU", "count": 4},))}


def paused() -> list[Scrape]:
    """Return what is read of a server that executes 20 requests a second, and nothing from SINCE to UNTIL."""
    steps = [Did(requests=0 if SINCE < 2 * (i + 1) <= UNTIL else 40, seconds=0.03, infer=0.02) for i in range(STEPS)]
    steps[int(UNTIL / 2)] = Did(requests=240, seconds=0.2, queue=0.15, infer=0.02)
    read = [
        one
        for one in story_scrapes({("m", "1"): steps}, configs=CONFIG)
        if not SINCE < one.at - START < UNTIL or one.kind is BodyKind.CONFIG
    ]
    missed = [(kind, SINCE + 2 * n) for n in range(1, 5) for kind in (BodyKind.METRICS, BodyKind.STATISTICS)]
    error = "no complete answer within 2 s"
    return [*read, *(Scrape(server=SERVER, kind=k, at=START + at, mono=START + at, error=error) for k, at in missed)]


def clients() -> Scrape:
    moments = [0.05 * number + 0.01 for number in range(1190)]
    return sent(moments, [UNTIL - at + 0.2 if SINCE <= at < UNTIL else 0.04 for at in moments])


def refused_meanwhile() -> Scrape:
    """Return what clients note of a server that was gone for as long: no answer but to those that came later."""
    moments = [0.05 * number + 0.01 for number in range(1190)]
    return sent([at for at in moments if not SINCE <= at < UNTIL], 0.04)


def machine(*, stopped: int | None = None, cores: float | None = None, full: bool = False) -> list[Scrape]:
    """Return samples of its process: so many of ten threads are stopped then, or it uses so many processors if not.

    Others use all processors of the machine meanwhile where it is `full`.
    """
    found, used = [], 0.0
    for at in (2.0 * number for number in range(STEPS + 1)):
        inside = SINCE < at < UNTIL
        used += 0.0 if inside else 2.0 * (cores or 0.0)
        own = {"pid": PID, "ppid": 1, "comm": "tritonserver", "cpu_seconds": used if cores else None}
        if stopped is not None:
            own |= {"thread_count": 10, "io_threads": 0, "stopped_threads": stopped if inside else 0}
        raw = {**host_body(START + at, 0.98 if full else 0.2), "server_pid": PID, "server_processes": [own]}
        body = json.dumps(raw).encode()
        found.append(Scrape(server=SERVER, kind=BodyKind.HOST, at=START + at, mono=START + at, body=body))
    return found


def explanation(scrapes: Sequence[Scrape]) -> Explanation:
    return explained(window_of(scrapes))


def first(scrapes: Sequence[Scrape]) -> str:
    found = explanation(scrapes).actionable
    return found[0].summary if found else ""


@pytest.mark.parametrize(
    ("samples", "shown"),
    [(machine(stopped=10), "threads were stopped"), (machine(cores=0.4), "used no CPU"), ([], "nor clients")],
    ids=["stopped", "no processor", "clients alone"],
)
def test_a_server_that_stood_still_is_the_one_finding(samples: Sequence[Scrape], shown: str) -> None:
    (found,) = explanation([*paused(), clients(), *samples]).actionable

    assert found.check == "model-unavailable"
    assert found.subject.model is None
    assert "stood still" in found.summary
    assert shown in found.summary
    assert found.impact.share_of_requests_failed == 0


@pytest.mark.parametrize("stopped", [9, 0], ids=["a thread runs", "none is stopped"])
def test_threads_that_are_stopped_alone_are_no_stop_of_the_server(stopped: int) -> None:
    assert "threads were stopped" not in first([*paused(), *machine(stopped=stopped)])


def test_a_server_that_answers_reads_does_not_stand_still() -> None:
    steady = story_scrapes({("m", "1"): [Did(requests=40, seconds=0.03, infer=0.02)] * STEPS}, configs=CONFIG)
    shifted = [replace(one, at=one.at + 0.1, mono=one.mono + 0.1) for one in steady]

    assert "stood still" not in first([*shifted, *machine(cores=0.4)])
    assert "stood still" not in first([*shifted, *machine(stopped=10)])


def test_who_gets_no_turn_on_a_full_machine_does_not_stand_still() -> None:
    shown = "(its threads were stopped, or used no CPU)"

    assert shown in first([*paused(), *machine(cores=0.4)])
    assert "stood still" not in first([*paused(), *machine(cores=0.4, full=True)])
    assert shown in first([*paused(), *machine(stopped=10, full=True)])


def test_a_server_that_answered_its_clients_does_not_stand_still() -> None:
    """Nobody read it, for the network's or the reader's sake."""
    answered = sent([0.05 * number + 0.01 for number in range(1190)], 0.04)

    assert "stood still" not in first([*paused(), answered])


def test_a_server_without_anybody_who_waited_for_it_does_not_stand_still() -> None:
    assert "stood still" not in first([*paused(), refused_meanwhile()])


def test_one_read_that_failed_is_enough_where_clients_waited_meanwhile() -> None:
    late = [one for one in paused() if one.error is None or one.at == START + SINCE + 6]
    found = first([*late, clients()])

    assert "stood still for 10" in found


def test_a_server_that_still_stands_is_reported_as_such() -> None:
    at_most = START + UNTIL - 1
    scrapes = [one for one in [*paused(), *machine(stopped=10)] if one.at <= at_most]

    assert "has stood still" in first(scrapes)


@pytest.mark.parametrize(("length", "alone"), [(1.2, False), (50.0, True)], ids=["short", "long"])
def test_a_short_stop_does_not_hide_what_else_takes_time(length: float, alone: bool) -> None:
    """Most of a minute explains a queue of seconds in a window of ten minutes; a second does not."""
    steady = Stage("m", rate=19, execution=0.05, queue=2.0, config=model_config("m"))
    end, found = 600.0, list[Scrape]()
    times = [10.0 * n for n in range(61) if not 300 < 10 * n < 300 + length]
    for at in sorted({*times, 300.5, 300.0 + length / 2}):
        inside = 300 < at < 300 + length
        own = {"pid": PID, "ppid": 1, "comm": "tritonserver", "thread_count": 10, "io_threads": 0}
        tree = [{**own, "stopped_threads": 10 if inside else 0}]
        raw = {**host_body(START + at, 0.1), "server_pid": PID, "server_processes": tree}
        body = json.dumps(raw).encode()
        found.append(Scrape(server=SERVER, kind=BodyKind.HOST, at=START + at, mono=START + at, body=body))
    assert times[-1] == end
    named = explanation([*SyntheticTriton(models=(steady,), times=times, cpu_busy=None).scrapes(), *found]).actionable

    stop = next(one for one in named if one.check == "model-unavailable")
    assert stop.severity is (Severity.CRITICAL if alone else Severity.WARNING)
    assert ("single-instance-serialization" not in {one.check for one in named}) is alone
