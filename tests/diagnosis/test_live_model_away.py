"""A real Triton under load: a model is unloaded for some seconds, and another one was refused at the start.

No record of a client helps: the index, the counters and the requests that do not come tell it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from diagnostics.demo.environment import find_environment
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.link import OUTAGE
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.schedule import collect
from exporters.sources.triton import discover
from tests.benchmark.kinds.clients import send
from tests.benchmark.kinds.record import serving as triton_of
from tests.benchmark.kinds.world import Event, Incident, Load, Model, World
from tests.builders import explained
from tests.collect.fake_triton import free_ports
from tests.render.shown import text
from tests.soak.running import serving

pytestmark = [pytest.mark.live, pytest.mark.alone]

BEFORE, AWAY, AFTER, SEED = 8.0, 8.0, 8.0, 1
SETTLING = 3.0
REASON = "weights are missing"
INCIDENT = Incident(
    world=World(
        models=(
            Model(name="requested", base_ms=5.0),
            Model(name="beside", base_ms=5.0),
            Model(name="broken", base_ms=5.0, broken=REASON),
        )
    ),
    loads=tuple(Load(model=name, rate=30.0) for name in ("requested", "beside", "broken")),
    refused=True,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read of the server, and what a service that read it meanwhile says.

    Attributes:
        scrapes: all reads, from before the model was unloaded until after it was loaded again.
        gone, back: Unix seconds at which it was unloaded and loaded again.
        incidents: the service's, at the end.

    """

    scrapes: tuple[Scrape, ...]
    gone: float
    back: float
    incidents: tuple[dict[str, Any], ...]

    def explained(self, *without: BodyKind, since: float = 0.0, until: float = float("inf")) -> Explanation:
        kept = [one for one in self.scrapes if one.kind is BodyKind.CONFIG or since <= one.at <= until]
        return explained(window_of(one for one in kept if one.kind not in without))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    folder, port = tmp_path_factory.mktemp("service"), free_ports(1)
    with triton_of(INCIDENT, environment) as running:
        url = running.server.http_url
        with serving(_settings(folder, port, url), port) as service:
            seconds = BEFORE + AWAY + AFTER
            load = threading.Thread(target=send, args=(INCIDENT.loads, url, SETTLING + seconds + 2, SEED))
            load.start()
            time.sleep(SETTLING)
            times: list[float] = []
            events = threading.Thread(target=_unload_for_a_while, args=(running, times))
            events.start()
            target = discover(url)
            scrapes = tuple(collect([target], 1.0, seconds=seconds))
            incidents = tuple(service.json("/api/v1/incidents"))
            target.close()
            events.join()
            load.join()
    return Seen(scrapes, *times, incidents)


def _settings(folder: Path, port: int, url: str) -> Path:
    file = folder / "diag.toml"
    file.write_text(
        f'[web]\nlisten_address = "127.0.0.1:{port}"\n[collect]\ninterval = "1s"\n'
        f'[history]\ndirectory = "{folder}/data"\n[[server]]\nurl = "{url}"\n'
    )
    return file


def _unload_for_a_while(running: Any, times: list[float]) -> None:
    time.sleep(BEFORE)
    times.append(time.time())
    running.do(Event(at=0.0, do="unload", model="requested"))
    time.sleep(AWAY)
    times.append(time.time())
    running.do(Event(at=0.0, do="load", model="requested"))


@pytest.mark.parametrize("without", [(), (BodyKind.INDEX,), (BodyKind.STATISTICS,), (BodyKind.METRICS,)])
def test_a_model_that_was_unloaded_under_load_is_the_first_cause(seen: Seen, without: tuple[BodyKind, ...]) -> None:
    explanation = seen.explained(*without)
    first = explanation.actionable[0]

    assert (first.check, first.subject.model) == (OUTAGE, "requested"), text(explanation)
    assert first.impact.share_of_requests_failed > 0.1


def test_a_window_that_holds_nothing_but_the_outage_is_not_healthy(seen: Seen) -> None:
    explanation = seen.explained(since=seen.gone + 2.0, until=seen.back)

    assert explanation.verdict is not Verdict.HEALTHY
    assert any(spot.what.startswith("requests to requested") for spot in explanation.blind_spots), text(explanation)


def test_the_service_opens_an_incident_of_it(seen: Seen) -> None:
    of_requested = [one for one in seen.incidents if one["subject"]["model"] == "requested"]

    assert OUTAGE in [one["check"] for one in of_requested], seen.incidents


def test_a_model_that_was_refused_at_the_start_is_named_with_its_reason(seen: Seen) -> None:
    explanation = seen.explained(until=seen.gone)
    (finding,) = [one for one in explanation.actionable if one.subject.model == "broken"]

    assert finding.check == OUTAGE, text(explanation)
    assert REASON in finding.summary
    assert "broken" in [one["subject"]["model"] for one in seen.incidents if one["check"] == OUTAGE]
