from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from queue import Empty

import pytest

from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources import schedule
from exporters.sources.schedule import collect


@dataclass
class FakeClock:
    """Time that passes only while it is waited for, and only when nobody is working."""

    time: float = 100.0

    def now(self) -> float:
        return self.time

    def wait(self, inbox, seconds: float):
        try:
            return inbox.get(timeout=0.05)
        except Empty:
            self.time += max(seconds, 1e-3)
            return None


@dataclass
class FakeSource:
    name: str
    clock: FakeClock
    begun: list[float] = field(default_factory=list)
    gate: threading.Event | None = None

    def round(self) -> list[Scrape]:
        self.begun.append(round(self.clock.now() - 100.0, 3))
        if self.gate:
            self.gate.wait(5)
        return [Scrape(server=self.name, kind=BodyKind.METRICS, at=0.0, mono=self.clock.now(), body=b"x")]


def test_rounds_begin_at_fixed_times_and_end_with_the_last_one_inside():
    clock = FakeClock()
    source = FakeSource("a", clock)
    scrapes = list(collect([source], 2.0, seconds=6.0, clock=clock))
    assert source.begun == [0.0, 2.0, 4.0, 6.0]
    assert len(scrapes) == 4


def test_a_slow_server_delays_no_other():
    clock, gate = FakeClock(), threading.Event()
    slow, quick = FakeSource("slow", clock, gate=gate), FakeSource("quick", clock)
    rounds = collect([slow, quick], 1.0, seconds=3.0, clock=clock)
    seen = [next(rounds).server for _ in range(4)]
    gate.set()
    rest = [scrape.server for scrape in rounds]
    assert seen == ["quick"] * 4
    assert quick.begun == [0.0, 1.0, 2.0, 3.0]
    assert slow.begun[0] == 0.0
    assert "slow" in rest


def test_a_server_still_busy_sits_a_round_out():
    clock, gate = FakeClock(), threading.Event()
    slow, quick = FakeSource("slow", clock, gate=gate), FakeSource("quick", clock)
    rounds = collect([slow, quick], 1.0, seconds=10.0, clock=clock)
    for _ in range(3):
        next(rounds)
    assert len(slow.begun) == 1
    gate.set()
    list(rounds)
    assert len(slow.begun) > 1


def test_time_slept_through_is_not_made_up_for():
    clock = FakeClock()
    source = FakeSource("a", clock)
    rounds = collect([source], 1.0, seconds=100.0, clock=clock)
    next(rounds)
    clock.time += 50.5
    next(rounds)
    next(rounds)
    rounds.close()
    assert source.begun[:3] == [0.0, 51.0, 52.0]


def test_stopping_ends_at_once_and_keeps_what_had_come():
    clock, stopped = FakeClock(), threading.Event()
    source = FakeSource("a", clock)
    scrapes = []
    for scrape in collect([source], 1.0, stop=stopped.is_set, clock=clock):
        scrapes.append(scrape)
        if len(scrapes) == 3:
            stopped.set()
    assert len(scrapes) == 3


def test_a_bug_in_a_source_is_not_swallowed():
    class Broken:
        name = "broken"

        def round(self) -> list[Scrape]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(collect([Broken()], 1.0, seconds=1.0, clock=FakeClock()))


def test_the_machines_own_clock_keeps_the_interval():
    source = FakeSource("a", FakeClock())
    begun = time.monotonic()
    assert len(list(collect([source], 0.05, seconds=0.2))) == 5
    assert 0.2 <= time.monotonic() - begun < 5


def test_a_source_that_does_not_end_its_last_round_is_left_and_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schedule, "PATIENCE", 4.0)
    clock, gate, left = FakeClock(), threading.Event(), []
    stuck, quick = FakeSource("stuck", clock, gate=gate), FakeSource("quick", clock)
    try:
        seen = [one.server for one in collect([stuck, quick], 1.0, seconds=3.0, clock=clock, left=left.append)]
    finally:
        gate.set()
    assert seen == ["quick"] * 4
    assert left == ["stuck"]
    assert 7.0 <= clock.time - 100.0 < 8.0
