"""Whatever a server says, the answer is an honest verdict and never a crash."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnostics.checks.check import Fires, Quiet, Unknown
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import (
    Counts,
    Stage,
    SyntheticTriton,
    chain,
    explained,
    model_config,
    only_between,
    restarted_at,
)

SAFETY = Stage("safety", rate=38, execution=0.0245, queue=0.17, pending=6, config=model_config("safety"))
EMBEDDER = Stage(
    "embedder",
    rate=60,
    execution={1: 0.004, 4: 0.006},
    batches={1: 0.5, 4: 0.5},
    queue=0.03,
    config=model_config("embedder", max_batch=16, batching={"max_queue_delay_microseconds": 30_000}),
)
CHAT = Stage("chat", rate=38, overhead=0.3, config=chain("chat", "embedder", "safety"), failing={"OTHER": 2.0})
TRITON = SyntheticTriton(models=(SAFETY, EMBEDDER, CHAT), gpu={"utilization_gpu_percent": 50})


def answer(scrapes: Sequence[Scrape]) -> Explanation:
    explanation = explained(window_of(scrapes))
    for result in explanation.results:
        assert isinstance(result.outcome, Fires | Quiet | Unknown)
    for finding in explanation.findings:
        assert 0 < finding.confidence <= 1
        assert 0 <= finding.impact.share_of_latency <= 1
        assert 0 <= finding.impact.share_of_requests_failed <= 1
    return explanation


def gappy(scrapes: Sequence[Scrape]) -> Sequence[Scrape]:
    draw = random.Random(3)
    lost = [draw.random() < 0.4 and scrape.kind is not BodyKind.CONFIG for scrape in scrapes]
    return [
        replace(scrape, body=None, error="timed out") if gone else scrape
        for scrape, gone in zip(scrapes, lost, strict=True)
    ]


def truncated(scrapes: Sequence[Scrape]) -> Sequence[Scrape]:
    return [replace(scrape, body=(scrape.body or b"")[: len(scrape.body or b"") // 2]) for scrape in scrapes]


def test_gaps_leave_the_cause() -> None:
    whole, holed = answer(TRITON.scrapes()), answer(gappy(TRITON.scrapes()))

    assert [finding.id for finding in holed.actionable] == [finding.id for finding in whole.actionable]


def test_bodies_cut_in_two_name_no_cause_and_are_not_healthy() -> None:
    explanation = answer(truncated(TRITON.scrapes()))

    assert explanation.verdict in (Verdict.INSUFFICIENT_DATA, Verdict.NO_CLEAR_CAUSE)
    assert not explanation.actionable


@pytest.mark.parametrize("reads", [0, 1, 2, 3])
def test_few_reads_never_break_it(reads: int) -> None:
    answer(TRITON.scrapes(reads))


@pytest.mark.parametrize("read", range(1, 13))
def test_a_restart_at_any_read_leaves_the_cause(read: int) -> None:
    explanation = answer(replace(TRITON, alter=restarted_at(read)).scrapes())

    assert explanation.actionable
    assert explanation.actionable[0].id == TRITON.explain().actionable[0].id


@pytest.mark.parametrize("last", range(12))
def test_a_model_that_vanishes_at_any_read_never_breaks_it(last: int) -> None:
    answer(replace(TRITON, alter=only_between("safety", 0, last)).scrapes())


@pytest.mark.parametrize("kind", [BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.CONFIG])
@pytest.mark.parametrize(
    "body",
    [b"", b"\x00\xff", b"<html>", b"[]", b"{}", b"null", b'{"model_stats": null}', b'{"name": "safety"}'],
    ids=repr,
)
def test_one_source_full_of_nonsense_never_breaks_it(kind: BodyKind, body: bytes) -> None:
    answer([replace(scrape, body=body) if scrape.kind is kind else scrape for scrape in TRITON.scrapes(5)])


ODD = st.sampled_from((0.0, 1.0, 1e9, 1.8e19, 2.0**63, 2.0**64 - 1, -1.0, -1e18))
FIELDS = ("requests", "items", "executions", "seconds", "queue", "input", "infer", "output")


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_absurd_counters_never_break_it(data: st.DataObject) -> None:
    broken = data.draw(
        st.dictionaries(st.tuples(st.integers(0, 7), st.sampled_from(FIELDS)), ODD, min_size=1, max_size=4)
    )

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> dict[tuple[str, str], Counts]:
        odd = {field: value for (read, field), value in broken.items() if read == number}
        return {key: replace(row, **odd) if key[0] == "safety" else row for key, row in rows.items()}  # type: ignore[arg-type]

    answer(replace(TRITON, alter=alter).scrapes(8))


LARGE = st.sampled_from((-1, 0, 1, 7, 64, 10**6, 2**31, 2**63, 2**64 - 1, 10**30))
SETTINGS: tuple[Callable[[int], dict[str, object]], ...] = (
    lambda n: {"max_batch_size": n},
    lambda n: {"instance_group": [{"kind": "KIND_CPU", "count": n}]},
    lambda n: {"instance_group": [{"kind": "KIND_GPU", "count": 1, "gpus": [n]}]},
    lambda n: {"dynamic_batching": {"max_queue_delay_microseconds": n}},
    lambda n: {"dynamic_batching": {"preferred_batch_size": [n]}},
    lambda n: {"dynamic_batching": {"default_queue_policy": {"max_queue_size": n}}},
)


@given(st.lists(st.tuples(st.sampled_from(SETTINGS), LARGE), min_size=1, max_size=3))
@settings(max_examples=60, deadline=2_000, suppress_health_check=[HealthCheck.too_slow])
def test_absurd_settings_neither_break_it_nor_keep_it_busy(
    changes: list[tuple[Callable[[int], dict[str, object]], int]],
) -> None:
    def hostile(scrape: Scrape) -> Scrape:
        if scrape.kind is not BodyKind.CONFIG or scrape.name == "chat":
            return scrape
        config = json.loads(scrape.body or b"{}")
        for setting, value in changes:
            config |= setting(value)
        return replace(scrape, body=json.dumps(config).encode())

    answer([hostile(scrape) for scrape in TRITON.scrapes(4)])
