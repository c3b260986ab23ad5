"""A real Triton that serves one deployment after another of the same models, and what it said of every request."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from diagnostics.demo.environment import TritonEnvironment
from diagnostics.demo.server import TritonLauncher
from tests.benchmark.deployment import Deployment, configs, write
from tests.benchmark.spans import Spans

# Spans wait in a queue of the exporter, which drops what does not fit: 100 requests/s make 1,500 spans a second.
_TRACES = (
    *("mode=opentelemetry", "level=TIMESTAMPS"),
    *("opentelemetry,bsp_max_queue_size=16384", "opentelemetry,bsp_schedule_delay=500"),
)


class Served:
    """A running server and its model repository."""

    def __init__(self, launcher: TritonLauncher, repository: Path, deployment: Deployment, spans: Spans) -> None:
        self.launcher, self.repository, self.spans = launcher, repository, spans
        self._configs, self._ensemble = configs(deployment), deployment.ensemble

    @property
    def infer_url(self) -> str:
        """Where requests to the ensemble go."""
        return f"{self.launcher.http_url}/v2/models/{self._ensemble}/infer"

    def become(self, deployment: Deployment) -> None:
        """Serve another deployment of the same models; only those that differ are loaded anew.

        Raises:
            CollectError: the server refuses it, or does not answer.

        """
        wanted = configs(deployment)
        assert wanted.keys() == self._configs.keys()
        for name, text in wanted.items():
            if text != self._configs[name]:
                (self.repository / name / "config.pbtxt").write_text(text, "utf-8")
                self.launcher.load_model(name)
        self._configs = wanted


@contextmanager
def serving(environment: TritonEnvironment, deployment: Deployment, trace_rate: int = 1) -> Iterator[Served]:
    """Run a server with a deployment, tracing one of so many requests; nothing of it is left afterwards."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="diag-prediction-")))
        spans = stack.enter_context(Spans())
        repository = write(deployment, scratch / "repository")
        _compile(environment, repository)
        settings = (*_TRACES, f"rate={trace_rate}", f"opentelemetry,url={spans.url}")
        args = [f"--trace-config={setting}" for setting in settings]
        launcher = stack.enter_context(TritonLauncher(environment, repository, args=args))
        yield Served(launcher, repository, deployment, spans)


def _compile(environment: TritonEnvironment, repository: Path) -> None:
    # Bytecode that appears beside a loaded model makes the server load it anew where a new count would do.
    subprocess.run([environment.python, "-m", "compileall", "-qq", repository], check=False)
