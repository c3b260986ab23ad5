"""Servers other than Triton in a store: each is read, or named and left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.cli.sources import WindowOptions
from diagnostics.errors import CollectError
from diagnostics.signals.signal import Scope
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.servers.catalogue import kinds_of, readable
from tests.builders import START, Stage, SyntheticTriton, model_config
from tests.promql.fake_prometheus import FakePrometheus
from tests.promql.stored import explained

PAGES = Path(__file__).parent.parent / "collect" / "pages"


def waits(path: Path) -> bool:
    """Return whether a page is of an engine's server without a Triton, at which requests wait."""
    layout = ExpositionReader().read(path.read_bytes()).layout
    return readable(layout) and not any(kind.has_api for kind in kinds_of(layout)) and "idle" not in path.stem


ENGINES = sorted(path.stem for path in PAGES.glob("*.txt") if waits(path))
TRITON = SyntheticTriton(models=(Stage("slow", rate=38, execution=0.0245, config=model_config("slow")),), interval=15.0)


def scrape(fake: FakePrometheus, name: str) -> None:
    body = (PAGES / f"{name}.txt").read_bytes()
    fake.scrape_all(
        Scrape(server=f"{name}:8000", kind=BodyKind.METRICS, at=at, mono=at, body=body)
        for at in (START + 15.0 * n for n in range(21))
    )


@pytest.mark.parametrize(("name", "kind"), [("dynamo_worker", "a worker of"), ("tgi", "Text Gen")])
def test_a_store_of_servers_that_are_not_read_names_them(name: str, kind: str) -> None:
    fake = FakePrometheus()
    scrape(fake, name)
    with pytest.raises(CollectError, match=kind):
        explained(fake, WindowOptions(at=str(START + 300), since=300.0))


def test_a_server_that_is_not_read_is_a_blind_spot_beside_triton() -> None:
    fake = FakePrometheus()
    fake.scrape_all(TRITON.scrapes(21))
    scrape(fake, "tgi")
    found = explained(fake, WindowOptions(at=str(START + 300), since=300.0))

    assert found.window.sources
    assert any(spot.what == "all of tgi:8000" for spot in found.blind_spots)


@pytest.mark.parametrize("name", ENGINES)
def test_the_series_of_a_server_stay_together(name: str) -> None:
    fake = FakePrometheus()
    scrape(fake, name)
    found = explained(fake, WindowOptions(at=str(START + 300), since=300.0))

    assert [on.server for on in found.evidence.subjects(Scope.SERVER)] == [f"{name}:8000"]
    assert found.verdict != "healthy"
