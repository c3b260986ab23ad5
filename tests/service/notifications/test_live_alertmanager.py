"""Real Alertmanagers: alerts open, inhibit, resolve; outages and restarts on either side lose and double nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from diagnostics.checks.check import Severity
from diagnostics.service.notifications.notifier import Notifier
from diagnostics.service.notifications.silences import Silencer
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.settings.tree import AlertmanagerSettings
from tests.collect.fake_triton import free_ports
from tests.service.notifications.alertmanagers import ROOT, Alertmanager, Pager
from tests.service.notifications.reported import CAUSE, ENDING, ONSET, onset_of, reported_by
from tests.service.parts import count, until
from tests.sinks.incidents import SAFETY, closed, incident, opened

pytestmark = pytest.mark.live
CONSEQUENCE = incident("capacity-exceeded", onset=ONSET + 60, seen=ONSET + 60, caused_by=CAUSE.id)
OTHER_MODEL = replace(CONSEQUENCE, id="other", subject=replace(SAFETY, model="other"), caused_by=None)
CAUSE_KEY, CONSEQUENCE_KEY = ("gpu-saturated", "safety", "diag"), ("capacity-exceeded", "safety", "diag")
OTHER_KEY, RULE_KEY = ("capacity-exceeded", "other", "diag"), ("gpu-saturated", "safety", "")


@pytest.fixture
def pager() -> Iterator[Pager]:
    with Pager().running() as running:
        yield running


@pytest.fixture
def two(tmp_path: Path, pager: Pager) -> Iterator[list[Alertmanager]]:
    first = free_ports()
    found = [Alertmanager(tmp_path / str(port), port, pager) for port in (first, first + 1)]
    try:
        for one in found:
            one.start()
        yield found
    finally:
        for one in found:
            one.stop(signal.SIGKILL)


@pytest.fixture
def telling(two: list[Alertmanager], tmp_path: Path) -> Iterator[Notifier]:
    made = reported_by([one.url for one in two], tmp_path)
    made.start()
    yield made
    made.stop()


def state(one: Alertmanager, key: tuple[str, str, str]) -> str:
    found = one.alerts().get(key)
    return found["status"]["state"] if found else "absent"


def test_an_incident_is_an_alert_everywhere_until_it_ends_and_a_cause_hides_its_consequences(
    two: list[Alertmanager], pager: Pager, tmp_path: Path
) -> None:
    metrics = OwnMetrics()
    telling = reported_by([one.url for one in two], tmp_path, metrics)
    telling.start()
    telling.consume(opened(CAUSE, CONSEQUENCE, OTHER_MODEL))
    for one in two:
        until(lambda one=one: state(one, CONSEQUENCE_KEY) == "suppressed")
        assert (state(one, CAUSE_KEY), state(one, OTHER_KEY)) == ("active", "active")
        assert onset_of(one.alerts()[CAUSE_KEY]) == pytest.approx(CAUSE.onset, abs=0.001)
    labels, ended = one.alerts()[CAUSE_KEY]["labels"], "2024-01-01T00:00:00Z"
    one.post({"labels": {name: text for name, text in labels.items() if name != "sender"}})
    until(lambda: state(one, RULE_KEY) == "suppressed")
    one.post({"labels": {name: text for name, text in labels.items() if name != "sender"}, "endsAt": ended})
    until(lambda: RULE_KEY not in one.alerts())
    until(lambda: {CAUSE_KEY, OTHER_KEY} <= pager.reported("firing"))
    telling.consume(closed(CAUSE, CONSEQUENCE, OTHER_MODEL, at=time.time()))
    for one in two:
        until(lambda one=one: not [key for key in one.alerts() if key[2]])
    until(lambda: {CAUSE_KEY, OTHER_KEY} <= pager.reported("resolved"))
    assert not {CONSEQUENCE_KEY, RULE_KEY} & pager.reported("firing")
    telling.stop()
    for receiver in telling.receivers:
        assert count(metrics, "diag_deliveries_total", receiver=receiver, outcome="ok") >= 2
        assert count(metrics, "diag_deliveries_total", receiver=receiver, outcome="failed") == 0


def test_a_silenced_incident_notifies_nobody_at_any_severity(two: list[Alertmanager], telling: Notifier) -> None:
    settings = AlertmanagerSettings(urls=tuple(one.url for one in two))
    now = time.time()
    Silencer(settings).silence(CAUSE, who="alice", why="known", start=now, end=now + 60)
    worse = replace(OTHER_MODEL, severity=Severity.CRITICAL, worst=Severity.CRITICAL)
    telling.consume(opened(replace(CAUSE, severity=Severity.CRITICAL, worst=Severity.CRITICAL), worse))
    for one in two:
        until(lambda one=one: state(one, CAUSE_KEY) == "suppressed")
        until(lambda one=one: state(one, OTHER_KEY) == "active")


def test_an_alertmanager_that_was_away_learns_what_began_and_what_ended(
    two: list[Alertmanager], pager: Pager, telling: Notifier
) -> None:
    away, there = two
    telling.consume(opened(CAUSE))
    until(lambda: CAUSE_KEY in pager.reported("firing") and CAUSE_KEY in away.alerts())
    until(lambda: CAUSE_KEY in there.alerts())
    until(lambda: {one["externalURL"].rpartition(":")[2] for one in pager.notifications} >= {str(away.port)})
    away.stop()  # in order, so that it remembers whom it notified
    pager.notifications.clear()
    telling.consume(closed(CAUSE, at=time.time()))
    telling.consume(opened(OTHER_MODEL))
    until(lambda: set(there.alerts()) == {OTHER_KEY})
    there.stop()
    pager.notifications.clear()
    away.start()
    until(lambda: set(away.alerts()) == {OTHER_KEY})
    until(lambda: CAUSE_KEY in pager.reported("resolved") and OTHER_KEY in pager.reported("firing"))


def test_an_alertmanager_that_lost_everything_is_reported_again(two: list[Alertmanager], telling: Notifier) -> None:
    telling.consume(opened(CAUSE))
    until(lambda: CAUSE_KEY in two[0].alerts())
    two[0].stop(signal.SIGKILL)
    two[0].start()
    until(lambda: CAUSE_KEY in two[0].alerts())
    assert onset_of(two[0].alerts()[CAUSE_KEY]) == pytest.approx(CAUSE.onset, abs=0.001)


def test_a_service_that_is_killed_and_comes_back_doubles_and_forgets_nothing(
    two: list[Alertmanager], pager: Pager, tmp_path: Path
) -> None:
    kept, gone = two
    urls = [kept.url, gone.url]
    ending = subprocess.Popen(
        [sys.executable, "-m", "tests.service.notifications.reported", str(tmp_path), *urls],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert ending.stdin is not None
    assert ending.stdout is not None
    try:
        until(lambda: len(gone.alerts()) == len(kept.alerts()) == 2, 20.0)
        before = kept.alerts()
        until(lambda: len(pager.reported("firing")) == 2)
        gone.stop()
        ending.stdin.write("end\n")
        ending.stdin.flush()
        assert ending.stdout.readline() == "saved\n"
        until(lambda: len(kept.alerts()) == 1)
    finally:
        ending.kill()
        ending.communicate()
    kept.stop()
    pager.notifications.clear()
    again = reported_by(urls, tmp_path)
    again.resume([CAUSE])
    again.start()
    try:
        gone.start()
        until(lambda: set(gone.alerts()) == {CAUSE_KEY})
        until(lambda: pager.reported("resolved") == {("cold-start", "safety", "diag")})
        after = gone.alerts()[CAUSE_KEY]
        assert (after["fingerprint"], after["startsAt"]) == (
            before[CAUSE_KEY]["fingerprint"],
            before[CAUSE_KEY]["startsAt"],
        )
        assert ENDING.id not in after["generatorURL"]
    finally:
        again.stop()
