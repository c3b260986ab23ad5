"""Whole windows of traffic, lifecycle and fleet faults, and of what looks like them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.finding import Finding
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import START, Stage, SyntheticTriton, chain, explained, host_body, model_config
from tests.builders_traffic import Did, indexed, logged, sent, story_scrapes

KEY = ("m", "1")
BUSY = Did(requests=40, seconds=0.03, infer=0.02)
ABSENT = Did(absent=True)
QUICK = {"m": model_config("m", groups=({"kind": "KIND_CPU", "count": 4},))}


def actionable(scrapes: Sequence[Scrape]) -> dict[str, Finding]:
    return {finding.check: finding for finding in explanation(scrapes).actionable}


def explanation(scrapes: Sequence[Scrape]) -> Explanation:
    return explained(window_of(scrapes))


def story(steps: Sequence[Did], **more: object) -> list[Scrape]:
    return story_scrapes({KEY: steps}, configs=QUICK, **more)  # type: ignore[arg-type]


def machine(steps: int, busy: float = 0.2, server: str = "triton-0") -> list[Scrape]:
    return [
        Scrape(
            server=server,
            kind=BodyKind.HOST,
            at=START + 2.0 * i,
            mono=START + 2.0 * i,
            body=json.dumps(host_body(START + 2.0 * i, busy)).encode(),
        )
        for i in range(steps + 1)
    ]


def in_groups(size: int, every: float, seconds: float, cost: float, seed: int = 1) -> tuple[list[float], list[float]]:
    """Return when groups of requests are sent at random times, and how long each takes: so much per request nearby."""
    draw, at, moments = random.Random(seed), 0.5, []
    while at < seconds - 1:
        moments += [at + k * 1e-3 for k in range(size)]
        at += draw.expovariate(1 / every)
    near = [sum(abs(other - moment) < 0.5 for other in moments) for moment in moments]
    return moments, [0.02 + cost * count for count in near]


class TestBursts:
    def scrapes(self, size: int, every: float, cost: float) -> list[Scrape]:
        moments, took = in_groups(size, every, 60, cost)
        steps = []
        for i in range(30):
            mine = [t for at, t in zip(moments, took, strict=True) if 2 * i <= at < 2 * i + 2]
            mean = sum(mine) / len(mine) if mine else 0.0
            steps.append(Did(requests=len(mine), seconds=mean, infer=0.015, queue=max(mean - 0.02, 0.0) / 4))
        return [*story(steps), *machine(30), sent(moments, took)]

    @pytest.mark.parametrize(("size", "every"), [(12, 2.0), (25, 3.0), (60, 5.0)])
    def test_groups_that_wait_for_each_other_are_named(self, size: int, every: float) -> None:
        found = explanation(self.scrapes(size, every, cost=0.004))

        assert found.actionable[0].check == "bursty-arrivals"

    @pytest.mark.parametrize(("size", "every"), [(12, 2.0), (25, 3.0), (60, 5.0)])
    def test_groups_that_nobody_waits_for_are_not(self, size: int, every: float) -> None:
        assert not actionable(self.scrapes(size, every, cost=0.0))

    def test_sequences_that_wait_for_a_slot_are_not(self) -> None:
        config = {**QUICK["m"], "sequence_batching": {"max_sequence_idle_microseconds": 5000000}}
        scrapes = [one for one in self.scrapes(25, 3.0, cost=0.004) if one.kind is not BodyKind.CONFIG]
        read = Scrape(
            server="triton-0", kind=BodyKind.CONFIG, at=START, mono=START, body=json.dumps(config).encode(), name="m"
        )

        assert "bursty-arrivals" not in actionable([read, *scrapes])

    def test_without_the_clients_record_it_is_the_same_or_nothing(self) -> None:
        scrapes = [s for s in self.scrapes(25, 3.0, cost=0.004) if s.kind is not BodyKind.CLIENT]

        assert set(actionable(scrapes)) <= {"bursty-arrivals"}


class TestClients:
    def scrapes(self, *, queue: float, outside: Sequence[float]) -> list[Scrape]:
        """Return a quick model, whose clients wait longer than its server by this in turn, and one with a queue."""
        quick = Did(requests=20, seconds=0.02, infer=0.019)
        full = Did(requests=40, seconds=0.05 + queue, queue=queue, infer=0.049)
        configs = {**QUICK, "full": model_config("full", groups=({"kind": "KIND_CPU", "count": 1},))}
        moments = [0.05 + 0.1 * number for number in range(590)]
        took = [0.02 + outside[int(at) % len(outside)] for at in moments]
        return [
            *story_scrapes({KEY: [quick] * 30, ("full", "1"): [full] * 30}, configs=configs),
            *machine(30),
            sent(moments, took),
            sent([0.02 + 0.05 * number for number in range(1180)], 0.052 + queue, "full"),
        ]

    def test_clients_that_wait_longer_than_the_server_takes_are_named(self) -> None:
        assert set(actionable(self.scrapes(queue=0.0, outside=[0.012]))) == {"client-or-transport-bound"}

    def test_clients_whose_requests_wait_for_another_model_are_not(self) -> None:
        found = actionable(self.scrapes(queue=0.8, outside=[0.012]))

        assert set(found) == {"single-instance-serialization"}
        assert found["single-instance-serialization"].subject.model == "full"

    def test_clients_that_wait_longer_at_times_are_not(self) -> None:
        assert not actionable(self.scrapes(queue=0.0, outside=[0.001] * 8 + [0.025] * 8))


class TestLoads:
    def test_requests_that_wait_for_a_reload_are_named_with_the_time_of_it(self) -> None:
        waited = Did(requests=40, seconds=1.53, queue=1.5, infer=0.02, anew=True)
        found = actionable([*story([BUSY] * 8 + [waited] + [BUSY] * 9), *machine(18)])

        finding = found["model-reload-stall"]
        assert list(found) == ["model-reload-stall"]
        assert finding.onset is not None
        assert finding.onset.at == START + 16
        assert str(finding.onset.change) == "m version 1 reloaded"

    def test_a_reload_that_nobody_notices_is_nothing(self) -> None:
        quiet = Did(requests=40, seconds=0.03, infer=0.02, anew=True)

        assert not actionable([*story([BUSY] * 8 + [quiet] + [BUSY] * 9), *machine(18)])

    def test_a_new_version_that_executes_slower_is_named_and_pinned(self) -> None:
        slow = Did(requests=40, seconds=0.1, infer=0.09)
        steps = {KEY: [BUSY] * 8 + [Did()] * 8, ("m", "2"): [ABSENT] * 8 + [slow] * 8}
        found = actionable([*story_scrapes(steps, configs=QUICK), *machine(16)])

        finding = found["version-regression"]
        assert finding.subject.version == "2"
        assert finding.suggestion is not None
        assert finding.suggestion.change is not None
        assert finding.suggestion.change.settings[0].value == "specific:1"

    def test_a_new_version_that_is_as_fast_is_nothing(self) -> None:
        steps = {KEY: [BUSY] * 8 + [Did()] * 8, ("m", "2"): [ABSENT] * 8 + [BUSY] * 8}

        assert not actionable([*story_scrapes(steps, configs=QUICK), *machine(16)])


class TestWarmUps:
    """A warm-up's executions are counted with those of requests, and nobody waits for them."""

    WARMED: ClassVar = {"m": {**QUICK["m"], "model_warmup": [{"name": "w", "batch_size": 1, "count": 3}]}}
    # Twelve samples of 1.5 s before the first of forty requests.
    FIRST = Did(requests=52, seconds=(12 * 1.5 + 40 * 0.03) / 52, infer=(12 * 1.5 + 40 * 0.02) / 52)

    @pytest.mark.parametrize("configs", [WARMED, None], ids=["configured", "unknown"])
    def test_a_new_version_that_was_warmed_up_is_not_cold(self, configs: Mapping[str, Mapping[str, object]]) -> None:
        steps = {KEY: [BUSY] * 8 + [Did()] * 8, ("m", "2"): [ABSENT] * 8 + [self.FIRST] + [BUSY] * 7}

        assert not actionable([*story_scrapes(steps, configs=configs), *machine(16)])

    def test_what_ensembles_met_tells_cold_requests_from_a_warm_up(self) -> None:
        ensemble = Did(requests=40, seconds=0.04)
        steps = {KEY: [BUSY] * 8 + [Did()] * 8, ("m", "2"): [ABSENT] * 8 + [self.FIRST] + [BUSY] * 7}
        configs = {**QUICK, "e": chain("e", "m")}

        def found(met: Did) -> dict[str, Finding]:
            every = {**steps, ("e", "1"): [ensemble] * 8 + [met] + [ensemble] * 7}
            return actionable([*story_scrapes(every, configs=configs), *machine(16)])

        assert not found(ensemble)
        assert "cold-start" in found(replace(ensemble, seconds=0.04 + 12 * 1.5 / 40))

    @pytest.mark.parametrize("warmed", [1, 2, 3])
    def test_a_page_every_fifteen_seconds_shows_no_slower_version(self, warmed: int) -> None:
        busy, first = replace(BUSY, requests=300), Did(requests=312, seconds=0.08, infer=0.07)
        steps = {KEY: [busy] * 3 + [Did()] * warmed, ("m", "2"): [ABSENT] * 3 + [first] + [busy] * (warmed - 1)}
        pages = [s for s in story_scrapes(steps, interval=15.0) if s.kind is BodyKind.METRICS]

        assert not actionable(pages)

    def test_a_slower_version_shows_in_pages_every_fifteen_seconds(self) -> None:
        busy, slow = replace(BUSY, requests=300), Did(requests=300, seconds=0.08, infer=0.07)
        steps = {KEY: [busy] * 3 + [Did()] * 3, ("m", "2"): [ABSENT] * 3 + [slow] * 3}
        pages = [s for s in story_scrapes(steps, interval=15.0) if s.kind is BodyKind.METRICS]

        assert [*actionable(pages)] == ["version-regression"]


class TestUnavailable:
    BROKEN = "Internal: failed to load model 'm': no such file"

    def test_a_model_that_no_version_serves_is_critical(self) -> None:
        index = indexed(8.0, ("m", "1", "READY", ""), ("other", "1", "UNAVAILABLE", self.BROKEN))
        requested = sent([1.0, 2.0], model="other")
        found = actionable([*story([BUSY] * 8), *machine(8), index, requested])

        assert found["model-unavailable"].subject.model == "other"
        assert found["model-unavailable"].severity is Severity.CRITICAL
        assert self.BROKEN in found["model-unavailable"].summary

    def test_a_new_version_that_failed_beside_one_that_serves_is_a_warning(self) -> None:
        log = logged("E0112 13:46:45.5 1 model_lifecycle.cc:642] \"failed to load 'm' version 2: Internal: bad plan\"")
        index = indexed(8.0, ("m", "1", "READY", ""))
        found = actionable([*story([BUSY] * 8), *machine(8), index, log])

        assert found["model-unavailable"].severity is Severity.WARNING
        assert "bad plan" in found["model-unavailable"].summary

    def test_an_ensemble_whose_member_is_missing_is_not_named(self) -> None:
        reason = "Invalid argument: ensemble chat contains models that are not available or ambiguous: m;"
        index = indexed(8.0, ("chat", "1", "UNAVAILABLE", reason), ("m", "1", "UNAVAILABLE", self.BROKEN))
        found = [f for f in explanation([*story([BUSY] * 8), index]).actionable if f.check == "model-unavailable"]

        assert [finding.subject.model for finding in found] == ["m"]

    def test_a_model_that_was_unloaded_as_requested_is_nothing(self) -> None:
        index = indexed(8.0, ("m", "1", "READY", ""), ("old", "1", "UNAVAILABLE", "unloaded"))

        assert not actionable([*story([BUSY] * 8), *machine(8), index])


class TestHung:
    def test_requests_that_wait_while_nothing_ends_are_critical(self) -> None:
        stuck = [Did(pending=40.0 * (i + 1)) for i in range(8)]
        found = actionable([*story([BUSY] * 10 + stuck), *machine(18)])

        assert found["execution-hung"].severity is Severity.CRITICAL
        assert found["execution-hung"].impact.share_of_requests_failed == pytest.approx(320 / 720)

    def test_a_pause_that_ended_is_not_a_hung_execution(self) -> None:
        pause = [Did(pending=40.0 * (i + 1)) for i in range(8)]
        steps = [*[BUSY] * 6, *pause, Did(requests=360, seconds=8.0, queue=8.0, infer=0.02), *[BUSY] * 4]

        assert "execution-hung" not in actionable([*story(steps), *machine(19)])

    def test_traffic_that_ended_is_not_a_hung_execution(self) -> None:
        assert not actionable([*story([BUSY] * 10 + [Did()] * 8), *machine(18)])


class TestShifts:
    def test_more_traffic_that_makes_requests_slower_is_reported(self) -> None:
        more = Did(requests=100, seconds=0.08, infer=0.02, queue=0.05)
        found = explanation([*story([BUSY] * 9 + [more] * 9), *machine(18)])
        shift = next(finding for finding in found.findings if finding.check == "workload-shift")

        assert shift.onset is not None
        assert shift.onset.at == START + 18

    def test_more_traffic_that_nobody_notices_is_nothing(self) -> None:
        before = Did(requests=40, seconds=0.021, infer=0.02)
        more = Did(requests=100, seconds=0.021, infer=0.02)

        assert explanation([*story([before] * 9 + [more] * 9), *machine(18)]).verdict is Verdict.HEALTHY


class TestFleets:
    def fleet(self, *each: Did) -> dict[str, Finding]:
        scrapes: list[Scrape] = []
        for number, did in enumerate(each):
            server = f"triton-{number}"
            scrapes += [*story([did] * 12, server=server), *machine(12, server=server)]
        return actionable(scrapes)

    def test_the_server_that_gets_most_of_the_traffic_is_named(self) -> None:
        much = Did(requests=110, seconds=0.12, queue=0.09, infer=0.02)
        found = self.fleet(much, Did(requests=20, seconds=0.03, infer=0.02), Did(requests=20, seconds=0.03, infer=0.02))

        assert found["replica-imbalance"].subject.server == "triton-0"
        assert "replica-outlier" not in found

    def test_the_server_that_executes_slower_is_named(self) -> None:
        slow = Did(requests=40, seconds=0.09, infer=0.08)
        found = self.fleet(slow, BUSY, BUSY)

        assert (found["replica-outlier"].subject.server, found["replica-outlier"].subject.model) == ("triton-0", "m")
        assert "replica-imbalance" not in found

    def test_servers_that_are_alike_are_nothing(self) -> None:
        assert not self.fleet(BUSY, BUSY, BUSY)

    def test_traffic_that_is_uneven_and_waits_nowhere_is_nothing(self) -> None:
        assert not self.fleet(Did(requests=90, seconds=0.03, infer=0.02), BUSY, BUSY)


class TestCopies:
    def test_a_stage_that_mostly_moves_tensors_is_named(self) -> None:
        config = model_config("m", groups=({"kind": "KIND_GPU", "count": 8},))
        stage = Stage("m", rate=20, execution=0.005, input=0.03, output=0.01, config=config)

        assert SyntheticTriton(models=(stage,)).explain().actionable[0].check == "input-output-cost"


class TestSequences:
    def test_sequences_that_wait_for_slots_are_named(self) -> None:
        config = model_config("m", sequence_batching={})
        stage = Stage("m", rate=10, execution=0.01, queue=0.4, config=config)
        found = SyntheticTriton(models=(stage,)).explain()

        assert found.actionable[0].check == "sequence-batcher-starved"
