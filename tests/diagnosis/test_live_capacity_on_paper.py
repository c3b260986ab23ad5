"""Real Tritons whose instances exist only on paper: one hangs, one was killed, some share a lock, some a resource.

The rate limiter makes models wait that need no resource, too, so that it has a server of its own. A twin with the load
of the model whose instance hangs shows that nothing else is named.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from diagnostics.demo.environment import find_environment
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.finding import Finding
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.machine import Machine
from exporters.sources.schedule import collect
from exporters.sources.triton import discover
from tests.benchmark.kinds.clients import send
from tests.benchmark.kinds.record import serving
from tests.benchmark.kinds.world import Event, Incident, Load, Model, World
from tests.builders import explained
from tests.render.shown import text

pytestmark = [pytest.mark.live, pytest.mark.alone]

SECONDS, SETTLING, SEED = 14.0, 3.0, 1
STAGE_MS, RATE = 25.0, 30.0
CROWDS = tuple(Load(model="locked", clients=3, start=at, end=at + 2) for at in range(1, 18, 4))
PLAIN = Incident(
    world=World(
        models=(
            Model(name="hung", base_ms=STAGE_MS, instances=2),
            Model(name="killed", base_ms=STAGE_MS, instances=2),
            Model(name="twin", base_ms=STAGE_MS, instances=2),
            Model(name="locked", base_ms=STAGE_MS, instances=3, locked=1.0),
        )
    ),
    loads=(
        *(Load(model=name, rate=RATE) for name in ("hung", "killed", "twin")),
        Load(model="locked", clients=1),
        *CROWDS,
    ),
    events=(
        Event(at=0.0, do="control", model="hung", values={"hang": [1]}),
        Event(at=0.0, do="kill", model="killed"),
    ),
)
LIMITED = Incident(
    world=World(models=(Model(name="limited", base_ms=STAGE_MS, instances=4, unit="R1"),)),
    loads=(Load(model="limited", rate=RATE),),
    options=("--rate-limit=execution_count",),
)
SIGHTS = ((), (BodyKind.HOST,), (BodyKind.HOST, BodyKind.LOG), (BodyKind.HOST, BodyKind.LOG, BodyKind.STATISTICS))


@dataclass(frozen=True, slots=True)
class Watched:
    """What was read of the server, with and without the machine that it runs on, its log last."""

    scrapes: tuple[Scrape, ...]

    def explained(self, *without: BodyKind) -> Explanation:
        return explained(window_of(one for one in self.scrapes if one.kind not in without))


def watch(incident: Incident) -> Watched:
    """Return what is read of a server of its own under this load, from shortly after the faults on."""
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    with serving(incident, environment) as running:
        url = running.server.http_url
        load = threading.Thread(target=send, args=(incident.loads, url, SETTLING + SECONDS + 1, SEED))
        load.start()
        for event in incident.events:
            running.do(event)
        time.sleep(SETTLING)
        target = discover(url)
        machine = Machine([target], gpus=False)
        scrapes = list(collect([target, machine], 1.0, seconds=SECONDS))
        at, body = scrapes[0].at, running.server.log_path.read_bytes()
        load.join()
        target.close()
        machine.close()
    return Watched((*scrapes, Scrape(server=target.name, kind=BodyKind.LOG, at=at, mono=at, body=body)))


@pytest.fixture(scope="module")
def plain() -> Watched:
    return watch(PLAIN)


@pytest.fixture(scope="module")
def limited() -> Watched:
    return watch(LIMITED)


def actionable(explanation: Explanation) -> Mapping[str, list[Finding]]:
    """Return the loud findings of each model."""
    models = {finding.subject.model or "" for finding in explanation.actionable}
    return {model: [one for one in explanation.actionable if one.subject.model == model] for model in models}


def more_instances(finding: Finding) -> bool:
    change = finding.suggestion.change if finding.suggestion else None
    return change is not None and any(one.path == "instance_group.count" for one in change.settings)


def test_lost_instances_are_named_with_what_became_of_them_and_the_twin_is_not(plain: Watched) -> None:
    explanation = plain.explained()
    found = actionable(explanation)

    assert [one.check for one in found["hung"]] == ["execution-hung"], text(explanation)
    assert "1 of 2 instances of hung serve nothing (its process does nothing)" in found["hung"][0].summary
    assert found["killed"][0].check == "execution-hung"
    assert "1 of 2 instances of killed serve nothing (its process is gone)" in found["killed"][0].summary
    assert "twin" not in found, text(explanation)


def test_the_rate_limiter_is_named(limited: Watched) -> None:
    for without in SIGHTS:
        (finding,) = limited.explained(*without).actionable

        assert finding.check == "single-instance-serialization"
        assert "the rate limiter lets 1 of 4 instances of limited execute at once" in finding.summary
        assert not more_instances(finding)


def test_a_lock_that_instances_share_is_named_or_stated_to_be_possible(plain: Watched) -> None:
    for without in SIGHTS:
        for finding in actionable(plain.explained(*without)).get("locked", []):
            assert finding.check == "single-instance-serialization"
            assert finding.suggestion is not None
            assert "lock" in finding.suggestion.text
            assert not more_instances(finding)


def test_without_the_machine_nothing_else_is_named_and_nothing_is_healthy(plain: Watched) -> None:
    for without in SIGHTS[1:]:
        explanation = plain.explained(*without)
        named = {(one.subject.model, one.check) for one in explanation.actionable}

        assert explanation.verdict is not Verdict.HEALTHY
        assert {check for model, check in named if model == "hung"} <= {"execution-hung"}
        assert actionable(explanation)["killed"][0].check == "execution-hung", text(explanation)
        assert not {check for model, check in named if model == "twin"}
