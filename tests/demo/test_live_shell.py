"""A service in front of a real Triton: its own time against the server's, from one trace."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest
import urllib3

from diagnostics.demo.environment import TritonEnvironment, find_environment, reference_root
from diagnostics.demo.faults import load_fault
from diagnostics.demo.server import TritonLauncher
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.signals.callers import CALLER_SECONDS
from diagnostics.signals.signal import Subject
from diagnostics.window.window import window_of
from diagnostics.wire.records import Scrape
from diagnostics.wire.trace_export import decode_spans
from exporters.sources.schedule import collect
from exporters.sources.triton import discover
from tests.benchmark.record import Spans, tracing
from tests.builders import explained
from tests.soak.running import until

pytestmark = [pytest.mark.live, pytest.mark.alone]
OWN_SECONDS = 0.15
REQUESTS = 120


@pytest.fixture(scope="module")
def shell() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shell_service", reference_root() / "shell/service.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def explanation(shell: ModuleType) -> Explanation:
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    with Spans() as spans, _server(environment, spans.url) as triton:
        gateway = shell.Gateway(triton.http_url, spans.url, OWN_SECONDS)
        front = shell.serve(gateway, 0)
        threading.Thread(target=front.serve_forever, daemon=True).start()
        with ThreadPoolExecutor(max_workers=1) as pool:
            load = pool.submit(_drive, f"http://127.0.0.1:{front.server_address[1]}/generate")
            scrapes = _read(triton, load.done)
            load.result()
        front.shutdown()
        front.server_close()
        gateway.provider.shutdown()
        until(lambda: _requests(spans.scrapes()) == REQUESTS, 30, "the spans of every request")
        window = window_of([*scrapes, *spans.scrapes()])
    return explained(window)


def _server(environment: TritonEnvironment, spans_url: str) -> TritonLauncher:
    options = (*tracing(spans_url), "--trace-config=opentelemetry,bsp_schedule_delay=200")
    return TritonLauncher(environment, load_fault("healthy"), args=options, stop_timeout=0.0)


def _requests(scrapes: Sequence[Scrape]) -> int:
    """Return how many requests Triton has told of: of each whose caller is traced, it tells."""
    spans = (span for one in scrapes for span in decode_spans(one.body or b"").spans)
    return sum(span.model == "ensemble" for span in spans)


def _drive(url: str) -> None:
    http = urllib3.PoolManager(maxsize=8)

    def one(number: int) -> int:
        time.sleep(number % 6 * 0.05)
        return int(http.request("POST", url, json={"text": f"hello {number}", "max_tokens": 12}).status)

    with ThreadPoolExecutor(max_workers=6) as pool:
        assert set(pool.map(one, range(REQUESTS))) == {200}


def _read(triton: TritonLauncher, done: object) -> list[Scrape]:
    target = discover(triton.http_url)
    try:
        return list(collect([target], 1.0, seconds=60.0, stop=done))  # type: ignore[arg-type]
    finally:
        target.close()


def test_the_services_own_time_is_reported_from_the_servers(explanation: Explanation) -> None:
    server = next(iter(explanation.window.sources))

    own = explanation.evidence.read(CALLER_SECONDS, Subject(server=server, ensemble="ensemble"))

    assert own.value == pytest.approx(OWN_SECONDS, rel=0.4)


def test_the_time_in_front_is_named_and_not_blamed_on_a_model(explanation: Explanation) -> None:
    assert [finding.check for finding in explanation.actionable] in ([], ["client-or-transport-bound"])
