"""Takes secrets out of bodies before they are written, at a price that a service can pay round after round."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from queue import Empty, Full, Queue

from diagnostics.store.database import QUEUE, Meters, WriteErrors
from diagnostics.store.raw import folder_of, newest_lasting
from diagnostics.store.segment import Key, OpenSegment
from diagnostics.window.rolling import LASTING
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.redact import redact

# Bodies of these kinds differ from round to round in their numbers only.
_REPEATING = frozenset({BodyKind.METRICS, BodyKind.DCGM, BodyKind.STATISTICS, BodyKind.INDEX, BodyKind.NVML})
# What numbers are written with: a pass that drops single bytes is thirty times as fast as a search for numbers.
_OF_NUMBERS = b"0123456789.+-eE"


class Cleaner:
    """Redacts scrapes as `redact` does. A page that held no secret is not searched again until its text changes."""

    def __init__(self) -> None:
        self._harmless: dict[tuple[str, BodyKind], bytes] = {}

    def clean(self, scrape: Scrape) -> Scrape:
        """Return the scrape without the values of secrets, or itself when it holds none."""
        if scrape.body is None or scrape.kind not in _REPEATING:
            return redact(scrape)
        text = _without_numbers(scrape.body)
        key = (scrape.server, scrape.kind)
        if self._harmless.get(key) == text:
            return scrape
        cleaned = redact(scrape)
        if cleaned is scrape:
            self._harmless[key] = text
        return cleaned


def _without_numbers(body: bytes) -> bytes:
    """Return a digest of what a body says besides its numbers."""
    return blake2b(body.translate(None, _OF_NUMBERS), digest_size=16).digest()


log = logging.getLogger(__name__)
# A round of five hundred servers; a disk that hangs for longer loses bodies rather than the service its memory.
MOST_WAITING = 4_000
MOST_BYTES = 64 * 2**20
SECONDS_BETWEEN_SYNCS = 1.0
# What a server said last is carried from segment to segment, until nothing was heard of it for so long.
FORGOTTEN_AFTER = 3600.0
# A deployment that is no longer read leaves its segment open no longer than this beyond its time.
_OVERDUE = 60.0


class Recorder:
    """Takes scrapes from any thread; a failed write loses that scrape and nothing else.

    Attributes:
        run: names this run of the service in every segment.

    """

    def __init__(
        self,
        directory: Path,
        seconds: float,
        meters: Meters,
        trouble: WriteErrors,
        closed: Callable[[Path | None], None],
    ) -> None:
        """Begin with nothing open.

        Args:
            directory: of the whole history.
            seconds: length of a segment.
            meters: shows the queue.
            trouble: called with failures.
            closed: called when a segment is finished, with its path when it could not be finished.

        """
        self.run = uuid.uuid4().hex
        self._directory, self._seconds, self._meters = directory, seconds, meters
        self._trouble, self._closed = trouble, closed
        self._queue: Queue[tuple[str, Scrape, bool] | None] = Queue(MOST_WAITING)
        self._held, self._lock = 0, threading.Lock()
        self._segments: dict[str, OpenSegment] = {}
        self._lasting: dict[str, dict[Key, Scrape]] = {}
        self._captured: dict[tuple[str, str], float] = {}
        self._cleaner = Cleaner()
        self._thread = threading.Thread(target=self._run, name="history-raw", daemon=True)
        self._synced = time.monotonic()

    def record(self, deployment: str, scrape: Scrape, *, clean: bool = False) -> None:
        """Queue a scrape; dropped, and counted, when the queue is full. `clean` says that no secret is in it."""
        size = len(scrape.body or b"")
        if self._held + size > MOST_BYTES and self._held:
            self._trouble.drop()
            return
        try:
            self._queue.put_nowait((deployment, scrape, clean))
        except Full:
            self._trouble.drop()
            return
        self._hold(size)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits and finish all segments."""
        self._queue.put(None)
        self._thread.join()

    def keep(self, deployment: str, scrape: Scrape, clean: bool = False) -> None:
        """Write one scrape; called by the thread."""
        what = f"recording {deployment}"
        try:
            self._write(deployment, scrape if clean else self._cleaner.clean(scrape))
            self._trouble.over(what)
        except OSError as error:
            self._trouble.drop()
            self._trouble.report(what, error)

    def _run(self) -> None:
        while True:
            try:
                item = self._queue.get(timeout=SECONDS_BETWEEN_SYNCS)
            except Empty:
                self._settle()
                continue
            if item is None:
                break
            self._guarded(*item)
            self._hold(-len(item[1].body or b""))
            self._meters.queue_length.labels(QUEUE).set(self._queue.qsize())
            self._settle()
        for deployment in list(self._segments):
            self._close(deployment)

    def _hold(self, size: int) -> None:
        with self._lock:
            self._held += size

    def _guarded(self, deployment: str, scrape: Scrape, clean: bool) -> None:
        try:
            self.keep(deployment, scrape, clean)
        except Exception as error:
            # One absurd body must not end the recording of all others.
            self._trouble.drop()
            self._trouble.report(f"recording {deployment}", error)
            log.debug("recording %s", deployment, exc_info=True)

    def _write(self, deployment: str, scrape: Scrape) -> None:
        segment = self._segments.get(deployment)
        if segment is not None and segment.over(scrape, self._seconds):
            self._close(deployment)
            segment = None
        now = self._captured[deployment, scrape.server] = time.monotonic()
        if segment is None:
            lasting = self._carried(deployment, now)
            folder = folder_of(self._directory, deployment)
            segment = self._segments[deployment] = OpenSegment(folder, deployment, self.run, scrape, lasting)
        if scrape.kind in LASTING and scrape.body is not None:
            # Kept even if it cannot be written now: the next segment begins with it.
            self._lasting_of(deployment)[scrape.server, scrape.kind, scrape.name] = scrape
        segment.add(scrape)

    def _lasting_of(self, deployment: str) -> dict[Key, Scrape]:
        if deployment not in self._lasting:
            found = newest_lasting(self._directory, deployment)
            self._lasting[deployment] = {(one.server, one.kind, one.name): one for one in found}
        return self._lasting[deployment]

    def _carried(self, deployment: str, now: float) -> list[Scrape]:
        known = self._lasting_of(deployment)
        for key in list(known):
            if now - self._captured.setdefault((deployment, key[0]), now) > FORGOTTEN_AFTER:
                del known[key]
        return list(known.values())

    def _close(self, deployment: str) -> None:
        segment = self._segments.pop(deployment)
        try:
            segment.close()
        except OSError as error:  # what it holds is whole, and is finished when there is room
            self._trouble.report(f"finishing a segment of {deployment}", error)
            self._closed(segment.path)
        else:
            self._trouble.over(f"finishing a segment of {deployment}")
            self._closed(None)

    def _settle(self) -> None:
        """Sync, and close what has been open for too long, once a second."""
        now = time.monotonic()
        if now - self._synced < SECONDS_BETWEEN_SYNCS:
            return
        self._synced = now
        for deployment, segment in list(self._segments.items()):
            try:
                segment.sync()
            except OSError as error:
                self._trouble.report(f"recording {deployment}", error)
            if now - segment.opened > self._seconds + _OVERDUE:
                self._close(deployment)
