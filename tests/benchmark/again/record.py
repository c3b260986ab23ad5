"""Records an odd incident, then tries each change that may help; the label is what helped."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from diagnostics.demo.environment import TritonEnvironment
from diagnostics.loadgen.load import SentRequest
from diagnostics.wire.records import BodyKind
from tests.benchmark.again.clients import send
from tests.benchmark.kinds.record import Running, observe, seen_by_clients, serving, under_load, write_capture
from tests.benchmark.kinds.sights import sight_of
from tests.benchmark.kinds.world import Incident
from tests.benchmark.record import helped_most
from tests.benchmark.spans import Spans

_SETTLING = 4.0
# Until then after its start a server has loaded its models, and its slow log takes all it writes.
_STARTING = 8.0
# What is read once, whenever that is.
_ONCE = frozenset({BodyKind.REPOSITORY, BodyKind.LOG})
# What a request that failed counts as, in milliseconds, when changes are compared.
FAILED_MS = 10_000.0
# A change that leaves more than this share of what clients wait did not help.
_HELPED = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is changed to see whether it helps.

    Attributes:
        what: what is changed, in words.
        names: checks whose statement and advice this is; empty if no check says so.
        incident: the incident without it.
        lanes_of: the model that gets more instances; empty for another change.
    """

    what: str
    incident: Incident
    names: tuple[str, ...] = ()
    lanes_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OddIncident(Incident):
    """An incident and the changes that are tried after it.

    Attributes:
        changes: what is tried.
        trial: seconds of each trial.
        felt_by: the model whose clients are compared; empty for all.
        slow_log: bytes a second that the server's log takes; 0 for a log of full speed.
        second: what another server beside it is, what its clients send and what happens to it; None for a single one.
    """

    changes: tuple[Change, ...] = ()
    trial: float = 24.0
    felt_by: str = ""
    slow_log: float = 0.0
    second: OddIncident | None = None


def record(
    incident: OddIncident, name: str, folder: Path, environment: TritonEnvironment, seed: int
) -> dict[str, object]:
    """Record one incident as `folder/name.tar.xz`; return its label, and beside it what the clients saw."""
    sight = sight_of(incident)
    with Spans() as spans, _fleet(incident, environment, spans.url if sight.traces else "") as fleet:
        scrapes, clients = observe(fleet, sight, seed, send)
        for _, running in fleet:
            running.server.check()
        events = [f"{at - clients[0].t:.1f} {what}" for _, running in fleet for at, what in running.done]
    kept = [scrape for scrape in [*scrapes, *spans.scrapes()] if sight.shows(scrape)]
    if sight.hole:
        middle = clients[0].t + (incident.fault_at or 0.5) * incident.seconds
        kept = [scrape for scrape in kept if scrape.kind in _ONCE or abs(scrape.at - middle) > sight.hole / 2]
    write_capture(folder / f"{name}.tar.xz", name, kept, clients, sight)
    tried = {change.what: _trial(incident, change.incident, environment, seed) for change in incident.changes}
    before = _felt(incident, clients)
    seen = {**seen_by_clients(incident, clients), "events": events, "before": round(before, 1), "tried": tried}
    return {"label": label_of(incident, before, tried), "seen": seen}


def label_of(incident: OddIncident, before: float, tried: Mapping[str, float]) -> dict[str, object]:
    """Return the label: the names of the changes that helped most when they were tried.

    Args:
        incident: the incident.
        before: what clients felt in the fault, milliseconds.
        tried: what they felt after each change, by what was changed.
    """
    names = {change.what: change.names for change in incident.changes}
    helpful = [what for what, ms in tried.items() if ms < _HELPED * before]
    most = [what for what in helped_most(before, tried) if what in helpful] if tried else []
    cause: object = sorted({*(name for what in most for name in names[what]), *incident.causes})
    label: dict[str, object] = {"cause": cause if tried else "healthy", "sight": incident.sight}
    if incident.targets:
        label["model"] = sorted({*incident.targets})
    also = sorted({*incident.also, *(name for what in helpful for name in names[what])})
    if tried:
        label["also"] = also
        label["mean_ms"] = round(before, 1)
        label["mean_ms_after"] = {what: round(ms, 1) for what, ms in sorted(tried.items())}
    vain = [c.lanes_of for c in incident.changes if c.lanes_of and c.what not in helpful]
    if vain:
        label["no_gain"] = vain
    if tried and (incident.abstain_ok or not cause):
        label["abstain_ok"] = True
    return label


def _trial(incident: OddIncident, changed: Incident, environment: TritonEnvironment, seed: int) -> float:
    """Return what clients feel after one change, in milliseconds: the mean latency, failures counted dear."""
    assert isinstance(changed, OddIncident)
    changed = replace(changed, seconds=incident.trial, cores=incident.cores)
    with _fleet(changed, environment) as fleet, under_load(fleet, changed.seconds, seed, send) as (_, clients):
        pass
    return round(_felt(changed, clients), 1)


@contextmanager
def _fleet(
    incident: OddIncident, environment: TritonEnvironment, spans: str = ""
) -> Iterator[list[tuple[Incident, Running]]]:
    """Run the servers of an incident. Only a single one is traced: a body of spans does not say which it is from."""
    with _log(incident) as options, ExitStack() as stack:
        parts = [replace(incident, options=options), *([incident.second] if incident.second else [])]
        url = "" if incident.second else spans
        yield [(part, stack.enter_context(serving(part, environment, url))) for part in parts]


def _felt(incident: OddIncident, clients: Sequence[SentRequest]) -> float:
    """Return the mean latency in milliseconds since the fault began, a failure counting as `FAILED_MS`."""
    begun = clients[0].t + max(_SETTLING, incident.fault_at * incident.seconds)
    counted = [one for one in clients if one.t >= begun and incident.felt_by in ("", one.model)]
    felt = [one.ms if one.ok else FAILED_MS for one in counted]
    return sum(felt) / len(felt) if felt else float("inf")


@contextmanager
def _log(incident: OddIncident) -> Iterator[tuple[str, ...]]:
    """Yield the server's options; with a log that takes only so many bytes a second once the server is up."""
    if not incident.slow_log:
        yield incident.options
        return
    with tempfile.TemporaryDirectory() as folder:
        path, done = Path(folder) / "log", threading.Event()
        os.mkfifo(path)
        reader = os.open(path, os.O_RDWR)

        def drain() -> None:
            begun = time.monotonic()
            while not done.is_set():
                took = len(os.read(reader, 4096))
                time.sleep(took / incident.slow_log if time.monotonic() - begun > _STARTING else 0)

        thread = threading.Thread(target=drain, daemon=True)
        thread.start()
        try:
            yield (*incident.options, f"--log-file={path}")
        finally:
            done.set()
            with suppress(OSError):
                os.write(reader, b"\n")
            thread.join(1.0)
