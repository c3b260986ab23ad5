from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from diagnostics.errors import CollectError, UsageError
from diagnostics.service.collector import Collector, Round
from diagnostics.service.jobs import LOST_AFTER, Job, TritonReader
from diagnostics.service.own.metrics import OwnMetrics
from exporters.sources.access import SourceOptions
from tests.collect.fake_triton import fake_triton
from tests.service.parts import FakeReader, count, job, until


class Lived:
    """A collector that runs, and what it delivered."""

    def __init__(self, threads: int = 4) -> None:
        self.metrics, self.rounds = OwnMetrics(), list[tuple[Job, Round]]()
        self.collector = Collector(threads, self.deliver, self.metrics)

    def deliver(self, made_by: Job, made: Round) -> None:
        self.rounds.append((made_by, made))

    def of(self, name: str) -> list[Round]:
        return [made for one, made in self.rounds if one.key == name]


@contextlib.contextmanager
def collecting(*jobs: Job, threads: int = 4) -> Iterator[Lived]:
    lived = Lived(threads)
    lived.collector.set_jobs(jobs)
    lived.collector.start()
    try:
        yield lived
    finally:
        lived.collector.stop()


def test_rounds_keep_their_places_in_the_interval():
    reader = FakeReader("triton")
    with collecting(job(reader, 0.05)):
        until(lambda: len(reader.begun) >= 12)
    gaps = [later - earlier for earlier, later in pairwise(reader.begun)]
    assert statistics.median(gaps) == pytest.approx(0.05, rel=0.2)
    whole = round((reader.begun[-1] - reader.begun[0]) / 0.05)
    assert reader.begun[-1] - reader.begun[0] == pytest.approx(whole * 0.05, abs=0.04), "lateness does not add up"


def test_the_place_of_a_source_is_its_own_and_always_the_same():
    places = [job(FakeReader(f"http://triton-{n}:8000"), 15.0).offset for n in range(200)]
    assert places == [job(FakeReader(f"http://triton-{n}:8000"), 15.0).offset for n in range(200)]
    assert all(0 <= place < 15.0 for place in places)
    in_seconds = [sum(second <= place < second + 1 for place in places) for second in range(15)]
    assert max(in_seconds) < 40, "they are spread"


def test_the_servers_of_a_large_fleet_begin_in_turn_each_in_its_place():
    jobs = [job(FakeReader(f"http://triton-{n}:8000"), 15.0) for n in range(200)]
    begun = time.monotonic()
    Lived().collector.set_jobs(jobs)
    waits = [one.due - begun for one in jobs]
    assert 45.0 < max(waits) < 61.0
    assert max(sum(second <= wait < second + 5 for wait in waits) for second in range(60)) < 40
    assert [wait % 15.0 for wait in waits] == pytest.approx([one.offset for one in jobs], abs=1.0)


def test_a_source_that_fails_is_requested_less_and_less_but_never_given_up():
    one = job(FakeReader(), 15.0)
    pauses = []
    for failures in (0, 1, 2, 3, 4, 5, 2_000):
        one.failures = failures
        pauses.append(one.next_after(one.due + 1.0) - one.due)
    assert pauses == [15.0, 15.0, 30.0, 60.0, 120.0, 120.0, 120.0]


def test_rounds_that_were_missed_are_not_made_up_for():
    one = job(FakeReader(), 15.0)
    assert one.next_after(one.due + 50.0) == one.due + 60.0


def test_the_first_success_ends_the_back_off():
    reader = FakeReader("t", broken=True)
    with collecting(job(reader)) as lived:
        until(lambda: len(reader.begun) >= 3)
        assert lived.of("t")[-1].error == "t: no Triton found"
        reader.broken = False
        until(lambda: any(not made.error for made in lived.of("t")))
        before = len(reader.begun)
        until(lambda: len(reader.begun) > before + 3, 2.0)
        assert count(lived.metrics, "diag_rounds_total", server="t", outcome="failed") >= 3


def test_sources_that_hang_delay_no_other_however_many_they_are():
    gate = threading.Event()
    hanging = [FakeReader(f"hangs-{n}", broken=True) for n in range(30)]
    sound = FakeReader("sound")
    with collecting(*map(job, [*hanging, sound]), threads=4):
        until(lambda: all(reader.begun for reader in hanging))
        for reader in hanging:
            reader.gate = gate
        before = len(sound.begun)
        until(lambda: len(sound.begun) > before + 10, 5.0)
        gate.set()


def test_what_is_read_on_the_spot_waits_for_no_network():
    gate = threading.Event()
    slow, here = FakeReader("slow", gate=gate), FakeReader("this machine")
    with collecting(job(slow), replace(job(here), local=True), threads=1) as lived:
        until(lambda: slow.begun)
        before = len(here.begun)
        until(lambda: len(here.begun) > before + 3)
        assert not lived.of("slow")
        gate.set()


def test_a_source_is_not_read_again_while_it_is_being_read():
    gate = threading.Event()
    slow = FakeReader("slow", gate=gate)
    quick = FakeReader("quick")
    with collecting(job(slow), job(quick)) as lived:
        until(lambda: len(quick.begun) >= 6)
        assert len(slow.begun) <= 1
        gate.set()
        until(lambda: lived.of("slow"))
        until(lambda: count(lived.metrics, "diag_rounds_total", server="slow", outcome="skipped"))


def test_an_error_of_the_programs_own_ends_no_source(caplog: pytest.LogCaptureFixture):
    reader = FakeReader("t", raises=ZeroDivisionError())
    with collecting(job(reader)) as lived:
        until(lambda: len(reader.begun) >= 2)
        assert count(lived.metrics, "diag_errors_total", part="collect") >= 1
        assert lived.of("t")[0].error == "ZeroDivisionError"


def test_a_receiver_that_fails_ends_no_source(caplog: pytest.LogCaptureFixture):
    reader, metrics = FakeReader("t"), OwnMetrics()
    collector = Collector(2, lambda *_: 1 / 0, metrics)
    collector.set_jobs([job(reader)])
    collector.start()
    until(lambda: count(metrics, "diag_errors_total", part="deliver") >= 2)
    collector.stop()


def test_jobs_that_stay_go_on_undisturbed_when_others_change():
    stays, goes, comes = FakeReader("stays"), FakeReader("goes"), FakeReader("comes")
    first, last = job(stays), job(goes)
    with collecting(first, last) as lived:
        until(lambda: stays.begun and goes.begun)
        lived.collector.set_jobs([first, job(comes)])
        assert goes.closed.wait(5)
        read = len(goes.begun)
        until(lambda: len(comes.begun) >= 2)
        before = len(stays.begun)
        until(lambda: len(stays.begun) > before + 3)
        assert len(goes.begun) <= read + 1, "at most the round that was under way"
        assert not stays.closed.is_set()
    gaps = [later - earlier for earlier, later in pairwise(stays.begun)]
    assert min(gaps) > 0.02, "it was not read twice"


def test_a_round_of_a_source_that_is_gone_is_not_delivered():
    gate = threading.Event()
    reader = FakeReader("t", gate=gate)
    with collecting(job(reader)) as lived:
        until(lambda: reader.begun)
        lived.collector.set_jobs([])
        gate.set()
        assert reader.closed.wait(5)
    assert lived.rounds == []


def test_the_end_waits_for_rounds_under_way_and_begins_no_more():
    gate = threading.Event()
    reader = FakeReader("t", gate=gate)
    lived = Lived()
    lived.collector.set_jobs([job(reader)])
    lived.collector.start()
    until(lambda: reader.begun)
    ending = threading.Thread(target=lived.collector.stop)
    ending.start()
    gate.set()
    ending.join(5)
    assert not ending.is_alive()
    assert len(reader.begun) == len(lived.rounds) == 1
    assert reader.closed.is_set()


def test_a_setting_that_cannot_be_used_any_more_is_a_failed_round():
    reader = FakeReader("t", raises=UsageError("holds no certificate", where="/etc/ca.pem"))
    with collecting(job(reader)) as lived:
        until(lambda: lived.of("t"))
        assert lived.of("t")[0].error == "/etc/ca.pem: holds no certificate"


def test_a_server_that_is_sought_anew_keeps_its_name():
    """Alerts on `diag_target_up` would begin anew with another one."""
    with fake_triton() as fake:
        reader = TritonReader(f"http://127.0.0.1:{fake.port}", SourceOptions(timeout=1.0))
        assert reader.server == reader.url
        reader.round()
    for _ in range(LOST_AFTER):
        reader.round()
    with pytest.raises(CollectError):
        reader.round()
    assert (reader.found, reader.server) == (None, f"127.0.0.1:{fake.port + 2}")
