from __future__ import annotations

import json
from urllib.request import urlopen

import pytest

from diagnostics.gen.scraping_alerts import PART_FAULTS
from diagnostics.service.evaluator import REPORTED_FOR, ClockWatch
from diagnostics.service.own import metrics
from diagnostics.service.own.metrics import FaultPart, OwnMetrics, ServiceFault, ServiceFaults
from diagnostics.store.database import WriteErrors
from tests.service.parts import count
from tests.service.serving import Serving

WHAT = "writing the history"


def test_a_fault_lasts_from_its_first_failure_until_it_works_again() -> None:
    times = iter((10.0, 25.0))
    made = ServiceFaults(clock=lambda: next(times))
    made.works(WHAT)
    made.failed(WHAT, "disk full", FaultPart.HISTORY)
    made.failed(WHAT, "read-only", FaultPart.HISTORY)
    assert made.lasting() == [
        ServiceFault(what=WHAT, part="history", reason="read-only", since=10.0, last=25.0, times=2)
    ]
    assert made.lasting()[0].reported(30.0) == "writing the history fails (2 times in 20 s): read-only"
    made.works(WHAT)
    assert made.lasting() == []


def test_faults_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST", 2)
    made = ServiceFaults()
    for what in "abc":
        made.failed(what, "", FaultPart.HTTP)
    assert [one.what for one in made.lasting()] == ["a", "b"]


def test_what_fails_is_on_the_page_in_the_api_and_in_the_metrics_while_it_lasts() -> None:
    with Serving(("chat",)) as serving:
        trouble = WriteErrors(serving.metrics)
        trouble.report(WHAT, OSError(28, "No space left on <device>"))
        page = urlopen(serving.url, timeout=10).read().decode()
        assert "writing the history fails (once in " in page
        assert "No space left on &lt;device&gt;" in page
        (stated,) = json.load(urlopen(f"{serving.url}/api/v1/state", timeout=10))["faults"]
        assert (stated["what"], stated["reason"]) == (WHAT, "No space left on <device>")
        assert count(serving.metrics, "diag_faults") == 1
        by_part = {one.value: count(serving.metrics, PART_FAULTS, part=one.value) for one in FaultPart}
        assert {part: number for part, number in by_part.items() if number} == {"history": 1}
        trouble.over(WHAT)
        assert "No space left" not in urlopen(serving.url, timeout=10).read().decode()
        assert count(serving.metrics, "diag_faults") == 0


def test_a_clock_that_is_set_is_reported_of_for_an_hour_and_one_that_is_slewed_is_not() -> None:
    metrics = OwnMetrics()
    watch = ClockWatch(metrics)
    for now, steady in ((1000.0, 0.0), (1015.1, 15.0), (1030.2, 30.0)):
        watch.look(now, steady)
    assert count(metrics, "diag_errors_total", part="clock") == 0
    watch.look(400.0, 45.0)
    (fault,) = metrics.faults.lasting()
    assert fault.reason == "the clock was set back by 645.2 s"
    watch.look(400.0 + REPORTED_FOR, 45.0 + REPORTED_FOR)
    assert metrics.faults.lasting(), "not yet"
    watch.look(402.0 + REPORTED_FOR, 47.0 + REPORTED_FOR)
    assert metrics.faults.lasting() == []
    assert count(metrics, "diag_errors_total", part="clock") == 1
