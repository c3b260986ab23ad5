"""A frontend short of threads is named where its threads are seen, and nothing else is where they are not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind, Scrape
from tests.captures.judging import Outcome, judge
from tests.captures.recorded import explanation_of, label_of

FOLDER = Path(__file__).parents[2] / "fixtures/frontend"
LABELS = {name: label_of(entry) for name, entry in json.loads((FOLDER / "labels.json").read_text()).items()}
SHORT, ENOUGH = "http-one-thread", "http-eight-threads"
SEEN: dict[str, tuple[BodyKind, ...]] = {
    "everything": (),
    "no-traces": (BodyKind.TRACES,),
    "no-clients": (BodyKind.CLIENT,),
}
UNSEEN: dict[str, tuple[tuple[BodyKind, ...], str]] = {
    "no-host": ((BodyKind.HOST,), "its threads"),
    "no-host-no-traces": ((BodyKind.HOST, BodyKind.TRACES), "trace some requests"),
    "no-host-no-clients": ((BodyKind.HOST, BodyKind.CLIENT), "its threads"),
    "the-server-alone": ((BodyKind.TRACES, BodyKind.CLIENT), "note what clients wait"),
}


@cache
def recorded(name: str) -> tuple[Scrape, ...]:
    return tuple(open_capture(FOLDER / f"{name}.tar.xz").scrapes())


@cache
def alone(name: str) -> tuple[Scrape, ...]:
    """Return a recording as on a machine half idle: full processors alone would silence the checks that may err."""
    return tuple(_half_idle(scrape) for scrape in recorded(name))


def _half_idle(scrape: Scrape) -> Scrape:
    if scrape.body is None or scrape.kind not in (BodyKind.HOST, BodyKind.METRICS):
        return scrape
    if scrape.kind is BodyKind.METRICS:
        return replace(scrape, body=re.sub(rb"(?m)^nv_cpu_utilization .*$", b"nv_cpu_utilization 0.5", scrape.body))
    sample = json.loads(scrape.body)
    spent = sample["cpu_jiffies"]
    spent["idle"] = sum(spent.values()) - spent["idle"] - spent["iowait"]
    return replace(scrape, body=json.dumps(sample).encode())


def explained(scrapes: tuple[Scrape, ...], *left_out: BodyKind) -> Explanation:
    return explanation_of([scrape for scrape in scrapes if scrape.kind not in left_out])


@pytest.mark.parametrize("left_out", SEEN.values(), ids=SEEN)
def test_a_frontend_short_of_threads_is_named_where_a_thread_and_a_wait_are_seen(
    left_out: tuple[BodyKind, ...],
) -> None:
    found = judge(LABELS[SHORT], explained(recorded(SHORT), *left_out))

    assert found.outcome is Outcome.SAME, found.wrong


@pytest.mark.parametrize(("left_out", "next_measurement"), UNSEEN.values(), ids=UNSEEN)
def test_without_its_threads_or_anyone_who_waits_no_cause_is_named(
    left_out: tuple[BodyKind, ...], next_measurement: str
) -> None:
    explanation = explained(alone(SHORT), *left_out)

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert not explanation.actionable
    assert any(next_measurement in symptom.next_measurement for symptom in explanation.symptoms)


@pytest.mark.parametrize("left_out", [(), *(kinds for kinds, _ in UNSEEN.values())], ids=["everything", *UNSEEN])
def test_the_same_load_on_enough_threads_is_healthy(left_out: tuple[BodyKind, ...]) -> None:
    explanation = explained(alone(ENOUGH), *left_out)

    assert explanation.verdict is Verdict.HEALTHY, explanation.symptoms
    assert judge(LABELS[ENOUGH], explanation).outcome is Outcome.SAME
