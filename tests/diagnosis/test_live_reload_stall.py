"""A real Triton under load: a load that takes seconds holds a thread of its frontend, and requests wait for it.

Requests whose connection that thread serves wait before they reach a queue. No record of a client helps.
"""

from __future__ import annotations

import threading
import time

import pytest

from diagnostics.demo.environment import find_environment
from diagnostics.diagnosis.explanation import Explanation, Verdict, explain_window
from diagnostics.diagnosis.link import LOAD
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.schedule import collect
from exporters.sources.triton import discover
from tests.benchmark.kinds.clients import send
from tests.benchmark.kinds.record import serving
from tests.benchmark.kinds.world import Ensemble, Event, Incident, Load, Model, Step, World
from tests.render.shown import text

pytestmark = [pytest.mark.live, pytest.mark.alone]

BEFORE, SECONDS, SETTLING, SEED = 14.0, 34.0, 3.0, 1
INCIDENT = Incident(
    world=World(
        models=(
            Model(name="prep", base_ms=4.0),
            Model(name="slow", base_ms=10.0, load_ms=6000.0),
            Model(name="beside", base_ms=5.0),
        ),
        ensembles=(
            Ensemble(
                name="chat",
                steps=(
                    Step(model="prep", takes=("IN",), gives="ready"),
                    Step(model="slow", takes=("ready",), gives="OUT"),
                ),
            ),
        ),
    ),
    loads=(Load(model="chat", rate=20.0), Load(model="beside", rate=20.0)),
)


@pytest.fixture(scope="module")
def scrapes() -> tuple[Scrape, ...]:
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    with serving(INCIDENT, environment) as running:
        url = running.server.http_url
        loads = threading.Thread(target=send, args=(INCIDENT.loads, url, SETTLING + SECONDS + 2, SEED))
        loads.start()
        time.sleep(SETTLING)
        event = Event(at=0.0, do="set_over_http", model="slow", values={"instances": 2})
        reload = threading.Timer(BEFORE, running.do, (event,))
        reload.start()
        target = discover(url)
        found = tuple(collect([target], 1.0, seconds=SECONDS))
        target.close()
        reload.join()
        loads.join()
    return found


def explained(scrapes: tuple[Scrape, ...], *without: BodyKind) -> Explanation:
    return explain_window(window_of(one for one in scrapes if one.kind not in without))


@pytest.mark.parametrize("without", [(), (BodyKind.INDEX,), (BodyKind.METRICS,), (BodyKind.CONFIG,)])
def test_a_slow_load_that_requests_wait_for_is_the_cause(
    scrapes: tuple[Scrape, ...], without: tuple[BodyKind, ...]
) -> None:
    explanation = explained(scrapes, *without)

    assert [(one.check, one.subject.model) for one in explanation.actionable] == [(LOAD, "slow")], text(explanation)


def test_where_a_load_is_not_seen_its_stall_is_not_called_healthy(scrapes: tuple[Scrape, ...]) -> None:
    explanation = explained(scrapes, BodyKind.STATISTICS)

    assert explanation.verdict is not Verdict.HEALTHY, text(explanation)
    assert not explanation.actionable, text(explanation)
