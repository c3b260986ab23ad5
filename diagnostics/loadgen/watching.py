"""What a server says of itself while load is on it, and what that is diagnosed as."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from diagnostics.bench.answer import Answer
from diagnostics.bench.block import Diagnosis
from diagnostics.demo.load import ClientRecord
from diagnostics.diagnosis.explanation import Explanation, explain_window
from diagnostics.diagnosis.focus import focused
from diagnostics.diagnosis.proof import proved
from diagnostics.render.words import headline, subject_name
from diagnostics.window.window import window_of
from diagnostics.wire.capture_writer import CaptureWriter
from diagnostics.wire.records import Kind, Scrape
from diagnostics.wire.redact import redact
from exporters.sources.blind_spots import blind_spots
from exporters.sources.machine import Machine
from exporters.sources.schedule import Source, collect
from exporters.sources.triton_server import TritonServer

# Read when a server is found, and true of every run after.
_LASTING = frozenset({Kind.CONFIG, Kind.SERVER, Kind.REPOSITORY})
# Counters are read so often at least in a run, and not more often than once a second.
_ROUNDS, _INTERVAL = 4, 1.0


class Watcher:
    """Reads a server while load is on it.

    Args:
        server: what is read; the watcher closes it.
        beside: what stands beside it, such as a dcgm-exporter's page.
        capture: takes everything that is read; None keeps nothing.

    """

    def __init__(
        self, server: TritonServer, beside: Sequence[Source] = (), capture: CaptureWriter | None = None
    ) -> None:
        self._server, self._capture = server, capture
        self._stack = ExitStack()
        self._stack.callback(server.close)
        machine = Machine([server])
        self._stack.callback(machine.close)
        self._sources: list[Source] = [server, *([machine] if machine.local else []), *beside]
        self._lasting: list[Scrape] = []
        self._clock = time.time() - time.perf_counter()

    def close(self) -> None:
        """Close what was opened."""
        self._stack.close()

    def watch(self, wait: float, seconds: float) -> Watch:
        """Begin to read in `wait` seconds, for `seconds`, in a thread of its own."""
        return Watch(self._sources, wait, seconds)

    def diagnose(self, watch: Watch, model: str, answers: Iterable[Answer]) -> Diagnosis:
        """Return what a run is diagnosed as, once its reading has ended; what was read goes into the capture."""
        scrapes = watch.end()
        client = self._client(model, answers)
        self._lasting += [scrape for scrape in scrapes if scrape.kind in _LASTING]
        for scrape in [*scrapes, client] if self._capture else []:
            self._keep(scrape)
        passing = [scrape for scrape in scrapes if scrape.kind not in _LASTING]
        window = window_of([*self._lasting, *passing, client])
        found = explain_window(window, sources=[self._server.name], gaps=blind_spots([self._server]))
        return diagnosis(focused(proved(found, simulate=False), model))

    def _keep(self, scrape: Scrape) -> None:
        if self._capture is not None:
            self._capture.add(redact(scrape))

    def _client(self, model: str, answers: Iterable[Answer]) -> Scrape:
        records = [
            ClientRecord(
                t=self._clock + one.sent,
                model=model,
                ms=(one.end - one.sent) * 1e3,
                ok=one.ok,
                code=one.code,
                delay_ms=one.late * 1e3,
            ).line()
            for one in sorted(answers, key=lambda one: one.sent)
        ]
        now = time.time()
        return Scrape(server="", kind=Kind.CLIENT, at=now, mono=now, body="".join(f"{r}\n" for r in records).encode())


class Watch:
    """One reading under way."""

    def __init__(self, sources: Sequence[Source], wait: float, seconds: float) -> None:
        self._sources, self._wait, self._seconds = sources, wait, seconds
        self._over = threading.Event()
        self._scrapes: list[Scrape] = []
        self._thread = threading.Thread(target=self._read, name="watch", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        if self._over.wait(self._wait):
            return
        interval = min(_INTERVAL, self._seconds / _ROUNDS)
        self._scrapes.extend(collect(self._sources, interval, seconds=self._seconds, stop=self._over.is_set))

    def end(self) -> list[Scrape]:
        """Return what was read, once the reading is over."""
        self._thread.join()
        return self._scrapes

    def cancel(self) -> None:
        """End at once."""
        self._over.set()
        self._thread.join()


def diagnosis(explanation: Explanation) -> Diagnosis:
    """Return an explanation's answer in short."""
    first = explanation.loud[0] if explanation.loud else None
    return Diagnosis(
        verdict=explanation.verdict.value,
        cause=f"{first.check} of {subject_name(first)}" if first else "",
        text=headline(explanation),
    )
