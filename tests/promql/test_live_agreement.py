"""The same load on a real Triton, seen by us, by a real Prometheus and by VictoriaMetrics: the same first cause."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import pytest

from diagnostics.demo.environment import find_environment
from diagnostics.demo.faults import Fault, load_fault
from diagnostics.demo.load import run_load
from diagnostics.demo.server import TritonLauncher
from tests.collect.fake_triton import free_ports
from tests.promql.victoria_metrics import victoria_metrics
from tests.soak.running import serving, until
from tests.stack.prometheus import Prometheus, job, prometheus
from tests.stack.stack import explained_by

pytestmark = pytest.mark.live
FAULT = "single-instance"
SECONDS = 10.0


@dataclass
class Watched:
    """A Triton under load, and where its pages are stored."""

    triton: TritonLauncher
    prometheus: str
    victoria_metrics: str


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder, installed, fault = tmp_path_factory.mktemp("stores"), find_environment(), load_fault(FAULT)
    assert installed is not None, "there is no environment of a Triton: make triton"
    with ExitStack() as stack:
        triton = stack.enter_context(TritonLauncher(installed, fault))
        stack.enter_context(_load(triton.http_url, fault))
        port = free_ports(1)
        settings = folder / "diag.toml"
        settings.write_text(
            f'[web]\nlisten_address = "127.0.0.1:{port}"\n[collect]\ninterval = "1s"\nwindow = "{SECONDS:g}s"\n'
            f'[history]\ndirectory = "{folder}/data"\n[[server]]\nurl = "{triton.http_url}"\n'
        )
        service = stack.enter_context(serving(settings, port))
        jobs = [job("triton", triton.metrics_url), job("diag", f"{service.url}/metrics")]
        vm = stack.enter_context(victoria_metrics(folder / "vm", jobs))
        real = stack.enter_context(prometheus(folder / "prometheus", jobs, "http://127.0.0.1:9", []))
        until(lambda: _reads(real) >= SECONDS + 2, 60, "scrapes of what the service exports")
        yield Watched(triton, real.url, vm)


@contextmanager
def _load(url: str, fault: Fault) -> Iterator[None]:
    stop = threading.Event()
    profile = replace(fault.load, duration=600.0)
    thread = threading.Thread(target=run_load, args=(url, profile), kwargs={"stop": stop}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def _reads(store: Prometheus) -> float:
    return store.value("max(changes(diag_statistics_read_timestamp_seconds[5m]))") or 0.0


def first_cause(*arguments: str) -> tuple[object, ...]:
    said = explained_by(arguments)
    assert said["verdict"] == "degraded", said["verdict"]
    (first, *_) = said["findings"]
    subject = first["subject"]
    return first["check"], subject["server"], subject["model"], subject["ensemble"]


def test_all_who_watch_a_load_name_the_same_cause(watched: Watched) -> None:
    direct = first_cause(watched.triton.http_url, "--window", "8s")
    assert direct[0] == "single-instance-serialization"
    assert first_cause(f"prometheus+{watched.prometheus}", "--since", "10s") == direct
    assert first_cause(f"prometheus+{watched.victoria_metrics}", "--since", "10s") == direct


def test_files_do_where_no_service_is_scraped(watched: Watched) -> None:
    source = f'prometheus+{watched.victoria_metrics}?selector={{job="triton"}}'
    repository = str(watched.triton.repository)
    check, _, model, _ = first_cause(source, "--since", "10s", "--repository", repository)
    assert (check, model) == ("single-instance-serialization", "safety")
