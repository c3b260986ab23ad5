"""Requests that a server does not take as they are: only clients see them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import START, Stage, SyntheticTriton, explained, model_config
from tests.builders_traffic import Did, Key, indexed, story_scrapes

READS, SECONDS = 15, 2.0
SERVED = Did(requests=10, seconds=0.02, infer=0.02)


def record(codes: Sequence[int | None]) -> Scrape:
    """Return a client's record of requests, evenly over the story, each with its status code."""
    every = READS * SECONDS / len(codes)
    rows = [
        {"t": START + number * every, "model": "m", "ms": 20.0, "ok": code == 200, "code": code}
        for number, code in enumerate(codes)
    ]
    body = "\n".join(map(json.dumps, rows)).encode()
    return Scrape(server="", kind=BodyKind.CLIENT, at=START, mono=START, body=body)


def seen(
    codes: Sequence[int | None],
    *more: Scrape,
    keys: Sequence[Key] = (("m", "1"),),
    away: range = range(0),
    served: Did = SERVED,
    **config: object,
) -> Explanation:
    story = [Did() if read in away else served for read in range(READS)]
    scrapes = story_scrapes(dict.fromkeys(keys, story), configs={"m": model_config("m", max_batch_size=8, **config)})
    return explained(window_of([*scrapes, record(codes), *more]))


def failures(explanation: Explanation) -> list[str]:
    return [f"{one.check} {one.summary}" for one in explanation.actionable]


@pytest.mark.parametrize("code", [400, 404])
def test_requests_that_the_server_does_not_take_are_failures(code: int) -> None:
    explanation = seen([200, 200, code] * 75)

    (found,) = explanation.actionable
    assert (found.check, found.subject.model) == ("request-failures", "m")
    assert found.impact.share_of_requests_failed == pytest.approx(1 / 3)
    assert "no counter shows them" in found.summary
    assert found.suggestion is not None
    assert "at most 8 rows a request" in found.suggestion.text


def test_one_finding_stands_for_all_versions() -> None:
    assert len(failures(seen([200, 200, 400] * 150, keys=(("m", "1"), ("m", "2"))))) == 1


def test_refusals_in_one_stretch_may_be_a_model_that_was_away() -> None:
    explanation = seen([200] * 75 + [400] * 75 + [200] * 75)

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "failed, and no counter shows it" in explanation.reason


@pytest.mark.parametrize("code", [None, 401, 429, 502])
def test_errors_that_a_proxy_or_the_way_may_have_made_stay_open(code: int | None) -> None:
    explanation = seen([200, 200, code] * 75)

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "failed, and no counter shows it" in explanation.reason


def test_a_few_mistakes_of_a_client_are_no_finding() -> None:
    assert not failures(seen([400] * 4 + [200] * 150))
    assert not failures(seen([400] * 6 + [200] * 900))


def test_requests_to_a_model_that_is_away_are_its_outage() -> None:
    away = [indexed(at, ("m", "1", "UNAVAILABLE", "unloaded")) for at in (11.0, 13.0, 15.0, 17.0)]
    index = [indexed(at, ("m", "1", "READY", "")) for at in (0.0, 5.0, 9.0, 19.0, 25.0, 30.0)]
    codes = [400 if 75 <= number < 135 else 200 for number in range(225)]

    assert not [
        one for one in failures(seen(codes, *index, *away, away=range(5, 9))) if one.startswith("request-failures")
    ]


@pytest.mark.parametrize(("waits", "named"), [(0.0, True), (0.2, False)])
def test_turns_of_sequences_that_have_ended_are_refused_where_none_waits_for_a_slot(waits: float, named: bool) -> None:
    """A turn whose sequence never got a slot is refused like one whose sequence ended for being idle."""
    batcher = {"max_sequence_idle_microseconds": 1_000_000}
    explanation = seen(
        [200, 200, 400] * 75, served=replace(SERVED, queue=waits, seconds=0.02 + waits), sequence_batching=batcher
    )

    found = [one for one in explanation.actionable if one.check == "request-failures"]
    assert bool(found) is named
    assert explanation.verdict is not Verdict.HEALTHY
    assert all(one.suggestion and "max_sequence_idle_microseconds" in one.suggestion.text for one in found)


@pytest.mark.parametrize(("limit", "waiting", "named"), [(8, 6, True), (8, 1, False), (0, 6, False)])
def test_requests_that_a_full_queue_refuses_are_known_by_clients(limit: int, waiting: int, named: bool) -> None:
    """A proxy may answer with 503, too, for reasons of its own: then the queue is not full."""
    explanation = seen(
        [200, 200, 503] * 75,
        served=replace(SERVED, pending=waiting),
        dynamic_batching={"default_queue_policy": {"max_queue_size": limit}},
    )

    assert [one.split()[0] for one in failures(explanation)] == (["queue-rejections"] if named else [])
    assert explanation.verdict is not Verdict.HEALTHY


@pytest.mark.parametrize(("counted", "named"), [(15, True), (10, False), (30, False)])
def test_answers_that_are_errors_are_failures_where_the_server_counts_them_as_successes(
    counted: float, named: bool
) -> None:
    """Of 225 requests in 30 s a third are answered with 500; those that never arrived were answered by a proxy."""
    explanation = seen([200, 200, 500] * 75, served=replace(SERVED, requests=counted))

    assert bool([one for one in failures(explanation) if "answers errors for" in one]) is named
    assert explanation.verdict is not Verdict.HEALTHY


@pytest.mark.parametrize("lost", [b"nv_inference_request_success", b"nv_inference_request_failure", b""])
def test_failures_in_front_of_a_limited_queue_are_no_errors_where_their_reasons_are_not_read(lost: bytes) -> None:
    """A page without its successes calls a model idle, whose statistics count failures."""
    policy = {"default_queue_policy": {"max_queue_size": 4}}
    stage = Stage("m", rate=20, execution=0.04, failing={"REJECTED": 8.0}, config=model_config("m", batching=policy))

    def without(body: bytes) -> bytes:
        return b"".join(line for line in body.splitlines(keepends=True) if not lost or not line.startswith(lost))

    scrapes = [
        replace(one, body=without(one.body or b"")) if one.kind is BodyKind.METRICS else one
        for one in SyntheticTriton(models=(stage,)).scrapes()
    ]

    assert "request-failures" not in [one.check for one in explained(window_of(scrapes)).actionable]
