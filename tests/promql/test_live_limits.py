"""A real Prometheus that holds a recorded incident of several servers, and refuses queries beyond its limit."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from diagnostics.cli.sources import WindowOptions, explain_stored
from exporters.sources.access import SourceOptions
from tests.captures.judging import Outcome, judge
from tests.captures.recorded import labels, scrapes_of
from tests.collect.fake_triton import free_ports
from tests.promql.fake_prometheus import FakePrometheus
from tests.promql.stored import stored
from tests.service.notifications.alertmanagers import program
from tests.soak.running import until
from tests.stack.prometheus import Prometheus

pytestmark = pytest.mark.live
INCIDENT, SERVERS = "cpu-handed-single-instance", 2


def exposition(fake: FakePrometheus) -> str:
    """Return what it holds as OpenMetrics with timestamps, each server's series under several names."""
    families: dict[str, list[str]] = {}
    for labels_of, samples in fake.series.items():
        for number in range(SERVERS):
            own = dict(labels_of) | {"instance": f"triton-{number}:8002"}
            own |= {"server": own["instance"]} if "server" in own else {}
            name = own.pop("__name__")
            head = f"{name}{{{','.join(f'{key}={json.dumps(value)}' for key, value in own.items())}}}"
            families.setdefault(name, []).extend(f"{head} {value!r} {at:.3f}" for at, value in samples)
    return "".join(f"# TYPE {name} unknown\n" + "\n".join(rows) + "\n" for name, rows in families.items()) + "# EOF\n"


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    folder = tmp_path_factory.mktemp("blocks")
    fake = stored(scrapes_of(INCIDENT), with_service=True)
    (folder / "samples").write_text(exposition(fake))
    (folder / "prometheus.yml").write_text("{}")
    make = [
        program("promtool"),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        str(folder / "samples"),
        str(folder / "data"),
    ]
    subprocess.run(make, check=True, capture_output=True)
    return folder, fake.now


@contextlib.contextmanager
def running(folder: Path, *limits: str) -> Iterator[str]:
    address = f"127.0.0.1:{free_ports(1)}"
    command = [
        program("prometheus"),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={address}",
        *limits,
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            until(Prometheus(f"http://{address}").ready, 20, "Prometheus")
            yield f"prometheus+http://{address}"
        finally:
            process.terminate()


@pytest.mark.parametrize("limits", [(), ("--query.max-samples=4000",)])
def test_a_recorded_incident_is_found_within_the_limits_of_a_store(
    blocks: tuple[Path, float], limits: tuple[str, ...]
) -> None:
    folder, end = blocks
    with running(folder, *limits) as url:
        explanation = explain_stored([url], WindowOptions(at=str(end), since=60.0), None, SourceOptions(timeout=7.7))
    assert judge(labels()[INCIDENT], explanation).outcome is Outcome.SAME
    assert len(explanation.window.sources) == SERVERS
    assert not [spot for spot in explanation.blind_spots if spot.what == "a part of what is stored"]
