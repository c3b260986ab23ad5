"""Instances on paper that execute nothing, and why: hung, gone, or held back by the rate limiter.

The figures are those of a real Triton 2.51 (24.10) whose stage of 25 ms has two instances, one of them stuck or killed,
and of one whose rate limiter lets one of four instances execute at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, Counts, Stage, SyntheticTriton, explained, host_body, model_config
from tests.render.shown import text

STUB = "triton_python_b"
READS, EVERY = 16, 2.0


def group(count: int, *resources: Mapping[str, object]) -> dict[str, object]:
    limiter = {"rate_limiter": {"resources": list(resources)}} if resources else {}
    return {"kind": "KIND_CPU", "count": count, **limiter}


def stage(name: str, *, rate: float, execution: float, queue: float, instances: int, pending: float = 0.0) -> Stage:
    return Stage(
        name,
        rate=rate,
        execution=execution,
        queue=queue,
        pending=pending,
        config=model_config(name, groups=[group(instances)]),
    )


def processes(shares: Sequence[float]) -> list[Scrape]:
    """Return host samples with a stub of `safety` per share: processor seconds that it uses in a second."""
    found = []
    for read in range(READS):
        at = START + read * EVERY
        stubs = [
            {"pid": 100 + n, "ppid": 1, "comm": STUB, "model": "safety", "cpu_seconds": 5 + share * read * EVERY}
            for n, share in enumerate(shares)
        ]
        body = json.dumps({**host_body(at, 0.3), "server_pid": 1, "server_processes": stubs}).encode()
        found.append(Scrape(server=SERVER, kind=BodyKind.HOST, at=at, mono=at, body=body))
    return found


def reported(triton: SyntheticTriton, *more: Scrape) -> Explanation:
    """Return what is said of a server whose host is known: by processes, where some are given."""
    server = replace(triton, interval=EVERY, cpu_busy=None)
    host = () if any(one.kind is BodyKind.HOST for one in more) else processes(())
    return explained(window_of([*server.scrapes(READS), *host, *more]))


WAITS = SyntheticTriton(
    models=(stage("safety", rate=34, execution=0.0256, queue=0.089, instances=2, pending=3),),
)


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ((0.016, 0.0003), "its process does nothing"),
        ((0.016, 0.99), "its process does nothing"),
    ],
    ids=["blocked", "spinning"],
)
def test_one_of_two_instances_that_serves_nothing_is_named(shares: Sequence[float], why: str) -> None:
    found = reported(WAITS, *processes(shares)).findings

    assert [(one.check, one.subject.model) for one in found] == [("execution-hung", "safety")]
    assert f"1 of 2 instances of safety serve nothing ({why})" in found[0].summary
    assert found[0].suggestion is not None
    assert found[0].suggestion.change is None


def test_an_instance_whose_process_was_killed_is_named_before_the_requests_that_it_fails() -> None:
    failing = replace(WAITS, models=(replace(WAITS.models[0], failing={"BACKEND": 1.0}),))
    found = reported(failing, *processes((0.016,))).findings

    assert found[0].check == "execution-hung"
    assert "1 of 2 instances of safety serve nothing (its process is gone)" in found[0].summary
    assert [one.caused_by for one in found[1:]] == [found[0].id]


def failing_each_read(triton: SyntheticTriton, counts: Sequence[int], since: int = 0) -> SyntheticTriton:
    """Return the server whose `safety` fails so many requests from read to read, in turn, from one read on."""

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Mapping[tuple[str, str], Counts]:
        failed = float(sum(counts[read % len(counts)] for read in range(since, number)))
        return {key: replace(row, failures={"BACKEND": failed}) for key, row in rows.items()}

    return replace(triton, alter=alter)


@pytest.mark.parametrize("since", [0, 4], ids=["all along", "from the fourth read on"])
@pytest.mark.parametrize("without", [(), (BodyKind.STATISTICS,), (BodyKind.METRICS,)], ids=str)
def test_failures_once_a_second_while_requests_wait_are_those_of_a_process_that_is_gone(
    since: int, without: tuple[BodyKind, ...]
) -> None:
    found = reported(failing_each_read(WAITS, (2, 2, 2, 1), since).without(*without)).findings

    assert [(one.check, one.subject.model) for one in found] == [
        ("execution-hung", "safety"),
        ("request-failures", "safety"),
    ]
    assert "1 of 2 instances of safety serve nothing (its process is gone)" in found[0].summary
    assert found[1].caused_by == found[0].id


@pytest.mark.parametrize("counts", [(0, 4, 1, 3), (3, 3, 3, 3), (1, 0, 1, 0)], ids=["uneven", "too many", "too few"])
def test_failures_at_another_pace_are_the_models_own(counts: Sequence[int]) -> None:
    found = reported(failing_each_read(WAITS, counts)).findings

    assert "execution-hung" not in {one.check for one in found}


def test_both_instances_at_work_are_not_gone_though_a_request_fails_each_second() -> None:
    busy = SyntheticTriton(models=(stage("safety", rate=72, execution=0.0256, queue=0.12, instances=2, pending=9),))
    found = reported(failing_each_read(busy, (2, 2, 2, 1))).findings

    assert "execution-hung" not in {one.check for one in found}


def test_a_process_that_may_be_gone_is_stated_where_nothing_waits_and_named_where_it_is_missed() -> None:
    idle = SyntheticTriton(models=(stage("safety", rate=12, execution=0.0256, queue=0.0003, instances=2),))
    failing = failing_each_read(idle, (2, 2, 2, 1))
    unseen, seen = reported(failing).findings, reported(failing, *processes((0.016,))).findings

    assert [one.check for one in unseen] == ["request-failures"]
    assert "as where a process of its instances is gone" in unseen[0].suggestion.text  # type: ignore[union-attr]
    assert [one.check for one in seen] == ["execution-hung", "request-failures"]
    assert seen[1].caused_by == seen[0].id


def test_a_model_whose_only_process_is_gone_serves_nothing() -> None:
    alone = replace(WAITS, models=(replace(WAITS.models[0], config=model_config("safety")),))
    served = {(one.name, one.version): one.after(108.0) for one in alone.models}
    failing = failing_each_read(alone, (2, 2, 2, 1), since=4)
    gone = replace(failing, alter=lambda read, rows: failing.alter(read, served if read >= 4 else rows))
    found = reported(gone).findings

    assert [one.check for one in found] == ["execution-hung", "request-failures"]
    assert "safety serves nothing (its processes are gone)" in found[0].summary


def test_fewer_processes_without_a_failed_request_are_a_count_that_was_lowered() -> None:
    assert "execution-hung" not in {one.check for one in reported(WAITS, *processes((0.016,))).findings}


@pytest.mark.parametrize("failing", [{"REJECTED": 12.0}, {"BACKEND": 4.0}], ids=["refusals", "at another pace"])
def test_fewer_processes_and_failures_of_other_kinds_are_a_count_that_was_lowered(failing: Mapping[str, float]) -> None:
    refusing = replace(WAITS, models=(replace(WAITS.models[0], failing=failing),))

    assert "execution-hung" not in {one.check for one in reported(refusing, *processes((0.016,))).findings}


def test_instances_that_all_work_are_not_hung_however_long_requests_wait() -> None:
    found = reported(WAITS, *processes((0.016, 0.015))).findings

    assert "execution-hung" not in {one.check for one in found}


def test_an_instance_that_rests_for_lack_of_requests_is_not_hung() -> None:
    quiet = SyntheticTriton(models=(stage("safety", rate=10, execution=0.0256, queue=0.0003, instances=2),))

    assert reported(quiet, *processes((0.016, 0.0003))).findings == ()


def test_more_executions_at_once_than_would_be_left_show_that_none_is_lost() -> None:
    busy = SyntheticTriton(models=(stage("safety", rate=72, execution=0.0256, queue=0.12, instances=2, pending=9),))

    assert "execution-hung" not in {one.check for one in reported(busy, *processes((0.016, 0.0003))).findings}


def test_a_backlog_that_one_of_two_instances_works_off_shows_that_one_is_lost() -> None:
    overloaded = SyntheticTriton(
        models=(stage("safety", rate=38.8, execution=0.0256, queue=3.0, instances=2, pending=120),)
    )

    found = reported(overloaded).findings

    assert [(one.check, one.subject.model) for one in found] == [("execution-hung", "safety")]
    assert "1 of 2 instances of safety serve nothing (hung, or its process is gone)" in found[0].summary
    assert found[0].confidence < 0.6, "no process was seen"


def test_a_backlog_that_both_instances_work_off_is_a_lack_of_instances() -> None:
    overloaded = SyntheticTriton(
        models=(stage("safety", rate=77.4, execution=0.0256, queue=3.0, instances=2, pending=240),)
    )

    assert "execution-hung" not in {one.check for one in reported(overloaded).findings}


def hung(sources: tuple[BodyKind, ...] = (BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.CONFIG)) -> SyntheticTriton:
    """Return a server on which no execution of `safety` ends, while 300 requests wait for it."""
    still = {(one.name, one.version): one.after(100.0) for one in WAITS.models}
    return replace(
        WAITS,
        models=(replace(WAITS.models[0], pending=300),),
        alter=lambda _, __: still,
        sources=sources,
    )


def test_a_hang_that_began_before_the_first_read_is_found_by_what_was_counted_before_it() -> None:
    for sources in ((BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.CONFIG), (BodyKind.METRICS,)):
        found = reported(hung(sources)).findings

        assert [(one.check, one.subject.model) for one in found if one.severity.actionable][:1] == [
            ("execution-hung", "safety")
        ]
        assert "usually they take 25.6 ms" in found[0].summary


def test_two_executions_of_many_requests_tell_too_little_of_what_one_takes() -> None:
    few = {("safety", "1"): Counts(requests=7, items=7, executions=2, infer=0.3, batches={4: (2, 0.09)})}
    server = replace(hung(), alter=lambda _, __: few)

    assert "execution-hung" not in {one.check for one in reported(server).findings}


def log(mode: str) -> Scrape:
    body = f"| rate_limit                       | {mode}   |\n".encode()
    return Scrape(server=SERVER, kind=BodyKind.LOG, at=START, mono=START, body=body)


def limited(*, at_once: float = 0.82, queue: float = 0.3) -> SyntheticTriton:
    """Return a server with four instances of 20 ms that need one unit of R1, and another model that needs none."""
    config = model_config("safety", groups=[group(4, {"name": "R1", "count": 1})])
    return SyntheticTriton(
        models=(
            Stage("safety", rate=at_once / 0.0207, execution=0.0207, queue=queue, pending=4, config=config),
            stage("tokenizer", rate=at_once / 0.0207, execution=0.003, queue=0.0, instances=1),
        )
    )


@pytest.mark.parametrize("logged", [(), (log("EXEC_COUNT"),)], ids=["without the log", "with the log"])
def test_a_rate_limiter_that_lets_one_of_four_instances_execute_is_named(logged: Sequence[Scrape]) -> None:
    (found,) = reported(limited(), *logged).findings

    assert (found.check, found.subject.model) == ("single-instance-serialization", "safety")
    assert "the rate limiter lets 1 of 4 instances of safety execute at once" in found.summary
    suggestion = found.suggestion
    assert suggestion is not None
    assert suggestion.change is not None
    assert [(one.path, one.value) for one in suggestion.change.settings] == [("instance_group.rate_limiter", None)]
    assert "--rate-limit-resource=R1:4" in suggestion.text
    assert found.confidence >= (0.95 if logged else 0.7)


@pytest.mark.parametrize(
    ("triton", "logged"),
    [
        (limited(), (log("OFF"),)),
        (limited(at_once=0.3), (log("EXEC_COUNT"),)),
        (limited(at_once=2.5), ()),
        (limited(queue=0.001), (log("EXEC_COUNT"),)),
    ],
    ids=["off", "its resource is idle", "more execute at once", "nobody waits"],
)
def test_a_rate_limiter_that_does_not_bind_is_no_cause(triton: SyntheticTriton, logged: Sequence[Scrape]) -> None:
    assert not any("rate limiter" in one.summary for one in reported(triton, *logged).findings)


def test_a_resource_given_in_greater_number_than_by_default_is_known_by_what_executes_at_once() -> None:
    (found,) = reported(limited(at_once=1.77), log("EXEC_COUNT")).findings

    assert "the rate limiter lets 2 of 4 instances of safety execute at once" in found.summary


def always_busy(instances: int) -> SyntheticTriton:
    """Return instances that never rest: none is seen alone, so that a lock that they share would look the same."""
    return SyntheticTriton(
        models=(stage("locked", rate=instances / 0.0613, execution=0.0611, queue=0.06, instances=instances, pending=4),)
    )


@pytest.mark.parametrize("host", [(), (0.0, 0.0, 0.0), (0.33, 0.33, 0.33)], ids=["unseen", "waiting", "one works"])
def test_more_instances_are_not_proposed_where_a_shared_lock_would_look_the_same(host: Sequence[float]) -> None:
    (found,) = reported(always_busy(3), *processes(host)).actionable

    assert found.check == "single-instance-serialization"
    assert found.confidence <= 0.6
    assert "wait for a lock that they share" in found.summary
    assert found.suggestion is not None
    assert (found.suggestion.change, found.suggestion.prediction, found.effect) == (None, None, None)
    assert "Traces of all requests (rate=1)" in found.suggestion.text


def test_instances_that_each_use_a_processor_share_no_lock() -> None:
    (found,) = reported(always_busy(3), *processes((0.97, 0.96, 0.98))).actionable

    assert found.suggestion is not None
    assert found.suggestion.change is not None
    assert found.suggestion.change.settings[0].path == "instance_group.count"
    assert "a lock" not in found.summary + found.suggestion.text


def test_one_instance_shares_nothing() -> None:
    assert "share a lock" not in text(reported(always_busy(1), *processes(())))
