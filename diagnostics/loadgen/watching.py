"""A bound on how long work in the main thread may take, whatever it does."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import FrameType

from diagnostics.bench.block import Diagnosis, RequestResult
from diagnostics.diagnosis.diagnose import DiagnosisOptions, diagnose
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.loadgen.pacing import sent_request
from diagnostics.render.phrases import cause_named, headline, next_step
from diagnostics.units import Limit, Unit
from diagnostics.window.window import window_of
from diagnostics.wire.capture_writer import CaptureWriter
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.redact import redact
from exporters.sources.machine import Machine
from exporters.sources.schedule import Source, collect
from exporters.sources.triton_server import TritonServer


class OutOfTimeError(BaseException):
    """Work was ended at its deadline. No Exception, so that nothing in the work itself takes it for a failure."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """End what is inside after so many seconds, or at once on Ctrl-C; in other threads than the main one do nothing.

    A thread's work cannot be ended from outside, and would go on beside the load that comes next; a process would
    take a second to start. A signal interrupts Python between two instructions.

    Raises:
        OutOfTimeError: it is over.
        KeyboardInterrupt: Ctrl-C was pressed; an event loop would have noticed only after the work.

    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_: int, __: FrameType | None) -> None:
        if armed:
            raise OutOfTimeError

    armed = True
    handlers = {
        signal.SIGALRM: signal.signal(signal.SIGALRM, over),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    before = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, *before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


# Read when a server is found, and true of every run after.
_LASTING = frozenset({BodyKind.CONFIG, BodyKind.SERVER, BodyKind.REPOSITORY})
# Counters are read so often at least in a run, and not more often than once a second.
_ROUNDS, _INTERVAL = 4, 1.0
LONGEST = Limit(
    value=20.0,
    unit=Unit.SECONDS,
    because="a run of the default options takes 12 s: a sweep should not wait much longer for a diagnosis than for "
    "its load",
)
_UNKNOWN = "unknown"
_NEXT = "keep the --capture of one load alone, and ask diag explain"


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

    def diagnose(self, watch: Watch, model: str, answers: Iterable[RequestResult], ends: Sequence[float]) -> Diagnosis:
        """Return what a run is diagnosed as, once its reading has ended; what was read goes into the capture.

        A load test waits for it, and no longer than it is worth: what is not explained or not proven by then names no
        cause, and says so; likewise what cannot be explained.

        Args:
            watch: the reading.
            model: what the load asked.
            answers: those of the measured time.
            ends: when each result of the whole run came, on the answers' clock.

        """
        scrapes = watch.end()
        client = self._client(model, answers)
        self._lasting += [scrape for scrape in scrapes if scrape.kind in _LASTING]
        for scrape in [*scrapes, client] if self._capture else []:
            self._keep(scrape)
        passing = [scrape for scrape in scrapes if scrape.kind not in _LASTING]
        return self._bounded([*self._lasting, *passing, client], model, ends)

    def _bounded(self, scrapes: Sequence[Scrape], model: str, ends: Sequence[float] = ()) -> Diagnosis:
        found: list[Explanation] = []
        try:
            with deadline(LONGEST.value):
                stated = self._explained(scrapes, model, found.append)
                return replace(stated, others=self._others(found[0], model, ends)) if found else stated
        except OutOfTimeError:
            return _late(found)
        except Exception as error:  # noqa: BLE001 - what was measured is worth more than why
            text = f"not explained ({type(error).__name__}: {error}); {_NEXT}, and report its output"
            return Diagnosis(verdict=_UNKNOWN, cause="", text=" ".join(text.split()))

    def _explained(self, scrapes: Sequence[Scrape], model: str, announce: Callable[[Explanation], None]) -> Diagnosis:
        evidence = WindowEvidence(window_of(scrapes))
        options = DiagnosisOptions(sources=[self._server.name], blind_spots=self._server.blind_spots, entry=model)
        announce(diagnose(evidence, replace(options, entry=None, validation=None)))
        return diagnosis(diagnose(evidence, options))

    def _others(self, found: Explanation, model: str, ends: Sequence[float]) -> float | None:
        """Return the requests per second that the server answered between its reads beside those that ended then."""
        entry = next(
            (
                one
                for one in found.anatomy
                if model in (one.ensemble, *(stage.model for stage in one.stages if one.ensemble is None))
            ),
            None,
        )
        times = found.evidence.moments(entry.server) if entry is not None else ()
        if entry is None or len(times) < 2 or times[-1] <= times[0]:
            return None
        ours = sum(times[0] < self._clock + end <= times[-1] for end in ends)
        return max(entry.requests - ours, 0.0) / (times[-1] - times[0])

    def _keep(self, scrape: Scrape) -> None:
        if self._capture is not None:
            self._capture.add(redact(scrape))

    def _client(self, model: str, answers: Iterable[RequestResult]) -> Scrape:
        records = [sent_request(one, model, self._clock).line() for one in sorted(answers, key=lambda one: one.sent)]
        now = time.time()
        return Scrape(
            server="", kind=BodyKind.CLIENT, at=now, mono=now, body="".join(f"{r}\n" for r in records).encode()
        )


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
        """Return what was read, once the reading is over: each round has its own deadline."""
        self._thread.join()
        return self._scrapes

    def cancel(self) -> None:
        """End at once."""
        self._over.set()
        self._thread.join()


def _late(found: Sequence[Explanation]) -> Diagnosis:
    """Return what can be said of a run whose explanation took too long: a cause without proof is none."""
    within = f"within {LONGEST.unit.show(LONGEST.value)}; {_NEXT}"
    if not found:
        return Diagnosis(verdict=_UNKNOWN, cause="", text=f"not explained {within}")
    first = diagnosis(found[0])
    return Diagnosis(verdict=first.verdict, cause="", text=f"{first.text}: not proven {within}")


def diagnosis(explanation: Explanation) -> Diagnosis:
    """Return an explanation's answer in short."""
    first = explanation.actionable[0] if explanation.actionable else None
    return Diagnosis(
        verdict=explanation.verdict.value,
        cause=cause_named(first) if first else "",
        text=headline(explanation),
        step=next_step(explanation),
    )
