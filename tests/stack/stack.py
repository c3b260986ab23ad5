"""Everything that a user runs, on the loopback: Triton, the service, Alertmanager, Prometheus, VictoriaMetrics.

Beside them verdicts on recorded incidents of a GPU and of an LLM engine are shown by a second service, with the pages
of metrics that belong to them, since neither can be made here.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from diagnostics.demo.environment import find_environment
from diagnostics.demo.faults import load_fault
from diagnostics.demo.server import TritonLauncher
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind
from tests.builders import explained
from tests.collect.fake_triton import free_ports
from tests.promql.victoria_metrics import victoria_metrics
from tests.service import serving as shown
from tests.service.notifications.alertmanagers import ROOT, Alertmanager, Pager
from tests.soak.running import DIAG, Serving, environment, serving, under_load
from tests.stack.prometheus import Prometheus, job, prometheus

# What the boards of GPUs and engines are drawn from.
RECORDED = ("gpu-handed-gpu-saturated", "cpu-handed-kv-exhausted")
RULES = ROOT / "rules"
WINDOW = "20s"
# Longer than any test takes; the load ends when the stack does.
_LOAD_SECONDS = 600.0


@dataclass
class Stack:
    """What runs."""

    triton: TritonLauncher
    service: Serving
    alertmanager: Alertmanager
    prometheus: Prometheus
    victoria_metrics: str

    def apply(self, patch: str) -> None:
        """Apply a patch in the model repository, and let the server take it up."""
        subprocess.run(
            ["patch", "-p1", "--no-backup-if-mismatch"],
            cwd=self.triton.repository,
            input=patch,
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        changed = patch.split("+++ b/", 1)[1].split("/", 1)[0]
        self.triton.load_model(changed)


@contextlib.contextmanager
def running_stack(folder: Path, fault: str = "single-instance", extra: Sequence[str] = ()) -> Iterator[Stack]:
    """Run the whole stack with a fault of the reference deployment under its load.

    Args:
        folder: for whatever the programs write.
        fault: what is wrong with the deployment.
        extra: further lines of the service's settings.

    """
    installed = find_environment()
    assert installed is not None, "there is no environment of a Triton: make triton"
    wrong = load_fault(fault)
    with ExitStack() as stack:
        port = free_ports(1)
        triton = stack.enter_context(TritonLauncher(installed, wrong, args=_traced(port), stop_timeout=0.0))
        stack.enter_context(under_load(triton.http_url, replace(wrong.load, duration=_LOAD_SECONDS)))
        alertmanager = Alertmanager(folder / "alertmanager", free_ports(1), stack.enter_context(Pager().running()))
        alertmanager.start()
        stack.callback(alertmanager.stop)
        service = stack.enter_context(serving(_settings(folder, port, triton, alertmanager, extra), port))
        pages = [stack.enter_context(_replayed(name)) for name in RECORDED]
        recorded = stack.enter_context(shown.Serving(names=[*RECORDED]))
        for name in RECORDED:
            recorded.stated(name, _judged(name))
        jobs = [
            job("triton", triton.metrics_url),
            job("diag", f"{service.url}/metrics"),
            job("diag-recorded", f"{recorded.url}/metrics"),
            *(job(f"triton-{name}", url, server) for name, (url, server) in zip(RECORDED, pages, strict=True)),
        ]
        rules = sorted((RULES / "alerts").glob("*.yaml")) + sorted((RULES / "recording").glob("*.yaml"))
        watching = stack.enter_context(prometheus(folder / "prometheus", jobs, alertmanager.url, rules))
        beside = stack.enter_context(victoria_metrics(folder / "victoria-metrics", jobs[:2]))
        yield Stack(triton, service, alertmanager, watching, beside)


def _traced(port: int) -> list[str]:
    """Return the server's options by which it sends the spans of every fifth request to the service."""
    url = f"opentelemetry,url=http://127.0.0.1:{port}/v1/traces"
    return [f"--trace-config={one}" for one in ("mode=opentelemetry", "level=TIMESTAMPS", "rate=5", url)]


def _judged(name: str) -> Explanation:
    return explained(window_of(open_capture(ROOT / f"fixtures/captures/{name}.tar.xz").scrapes()))


def _settings(
    folder: Path, port: int, triton: TritonLauncher, alertmanager: Alertmanager, extra: Sequence[str]
) -> Path:
    file = folder / "diag.toml"
    lines = [
        "[web]",
        f'listen_address = "127.0.0.1:{port}"',
        "[collect]",
        'interval = "1s"',
        f'window = "{WINDOW}"',
        "[incidents]",
        'close_after = "5s"',
        "[history]",
        f'directory = "{folder}/data"',
        "[alertmanager]",
        f'urls = ["{alertmanager.url}"]',
        'resend = "2s"',
        "[[server]]",
        f'url = "{triton.http_url}"',
        f'repository = "{triton.repository}"',
        "[[slo]]",
        'name = "chat"',
        "objective = 0.9",
        'ensemble = "ensemble"',
        'latency = "200ms"',
        'period = "7d"',
        *extra,
    ]
    file.write_text("\n".join(lines) + "\n")
    return file


@contextlib.contextmanager
def _replayed(name: str) -> Iterator[tuple[str, str]]:
    """Serve the pages of metrics of a capture one after another, as fast as they were recorded, again and again."""
    scrapes = [
        one
        for one in open_capture(ROOT / f"fixtures/captures/{name}.tar.xz").scrapes()
        if one.kind is BodyKind.METRICS and one.body is not None
    ]
    begun, length = time.monotonic(), scrapes[-1].mono - scrapes[0].mono

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            at = scrapes[0].mono + (time.monotonic() - begun) % length
            body = max((one for one in scrapes if one.mono <= at), key=lambda one: one.mono).body or b""
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics", scrapes[0].server
    finally:
        server.shutdown()
        server.server_close()


def explained_by(arguments: Sequence[str]) -> dict[str, object]:
    """Return what `diag explain` of a process of its own says, as JSON."""
    done = subprocess.run(
        [*DIAG, "explain", *arguments, "--output", "json"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    stated: dict[str, object] = json.loads(done.stdout)
    return stated
