"""Counters that jump back without a restart: several servers behind one address, a clock that was set back."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Verdict
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.signals.signal import Missing
from diagnostics.signals.triton import QUEUE_SECONDS
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import Counts, Rows, Stage, SyntheticTriton, explained, model_config, on, restarted_at
from tests.captures.recorded import explanation_of, labels, scrapes_of

STAGE = Stage("m", rate=40, execution=0.005, queue=0.05, config=model_config("m"))


def other_server(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
    """Every second read comes from a server that has answered 1000 requests less."""
    less = Counts(requests=1000, items=1000, executions=1000, seconds=55, queue=50, infer=5, batches={1: (1000, 5)})
    return {key: row - less for key, row in rows.items()} if number % 2 else rows


def test_two_servers_behind_one_address_are_not_read_as_one_that_restarts():
    explanation = SyntheticTriton(models=(STAGE,), alter=other_server).explain()
    assert explanation.verdict is Verdict.INSUFFICIENT_DATA
    assert not explanation.actionable


def test_two_servers_behind_one_address_are_stated_to_have_been_reset():
    window = SyntheticTriton(models=(STAGE,), alter=other_server).window()
    assert WindowEvidence(window).read(QUEUE_SECONDS, on("m")).missing is Missing.RESET


def test_one_restart_leaves_the_rest_readable():
    assert SyntheticTriton(models=(STAGE,), alter=restarted_at(6)).explain().anatomy


def second_half_earlier(scrapes: list[Scrape], seconds: float) -> list[Scrape]:
    times = sorted(scrape.at for scrape in scrapes if scrape.kind is BodyKind.METRICS)
    middle = times[len(times) // 2]
    return [
        replace(scrape, at=scrape.at - seconds, mono=scrape.mono - seconds) if scrape.at > middle else scrape
        for scrape in scrapes
    ]


@pytest.mark.parametrize("seconds", [60.0, 3600.0])
def test_a_clock_set_back_in_the_middle_changes_no_figure(seconds: float):
    scrapes = SyntheticTriton(models=(STAGE,), cpu_busy=None).scrapes()
    whole, turned = explained(window_of(scrapes)), explained(window_of(second_half_earlier(scrapes, seconds)))
    assert turned.anatomy[0].mean_seconds == pytest.approx(whole.anatomy[0].mean_seconds)


@pytest.mark.parametrize("name", ["gpu-handed-healthy", "gpu-handed-batch-window-long", "gpu-handed-queue-overflow"])
def test_a_clock_set_back_in_the_middle_invents_no_cause(name: str):
    found = explanation_of(second_half_earlier(list(scrapes_of(name)), 3600.0))
    assert {finding.check for finding in found.actionable} <= labels()[name].allowed


def test_statistics_whose_clock_stands_still_are_no_reason_to_blame_clients():
    recorded = scrapes_of("cpu-handed-single-instance")
    scrapes = [replace(s, body=_timeless(s.body)) if s.kind is BodyKind.STATISTICS and s.body else s for s in recorded]
    first = explanation_of(scrapes).findings[0]
    assert (first.check, first.subject.model) == ("single-instance-serialization", "safety")


def _timeless(body: bytes) -> bytes:
    return re.sub(rb'"ns": *\d+', b'"ns": 0', body)
