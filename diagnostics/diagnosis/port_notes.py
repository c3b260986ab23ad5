"""Which of a server's ports could not be read for a while, although the other could: what that hides and may mean."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from diagnostics.diagnosis.notes import Note
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.signal import Scope
from diagnostics.units import Unit, time_text
from diagnostics.window.unanswered import INFERENCE_PORT, METRICS_PORT, Unanswered

_HIDES = {
    INFERENCE_PORT: "statistics, configuration and instance counts (a busy share is only an upper bound)",
    METRICS_PORT: "GPU gauges, pending requests, engine gauges, failures by reason and latency summaries",
}
_FIX = {
    INFERENCE_PORT: "ask the port as a client does (curl -i HOST:8000/v2/health/ready); if it is refused, clients are "
    "too, whatever the metrics page shows; if it is slow, read the server's log and threads",
    METRICS_PORT: "find what closed it (--allow-metrics, --metrics-port, a network policy); until then only "
    "statistics are counted",
}


def hidden_by(port: str, server: str) -> str:
    """Return what is not seen of a server while one of its ports cannot be read."""
    return f"{_HIDES[port]} of {server}"


def port_notes(evidence: Evidence, outages: Collection[str], known: Collection[str]) -> Iterator[Note]:
    """Return a note for each port that could not be read for a while.

    Args:
        evidence: what was read.
        outages: servers whose outage is a finding.
        known: what is already known to be hidden.

    """
    for on in evidence.subjects(Scope.SERVER):
        found: dict[str, list[Unanswered]] = {}
        for one in evidence.unanswered(on.server):
            found.setdefault(one.port, []).append(one)
        for port, silences in found.items():
            what = hidden_by(port, on.server)
            if what not in known and (port != INFERENCE_PORT or on.server not in outages):
                yield Note(what, _why(port, silences), _FIX[port])


def _why(port: str, silences: list[Unanswered]) -> str:
    first, last = silences[0], silences[-1]
    reads = sum(one.reads for one in silences)
    if first.after is None and last.before is None and len(silences) == 1:
        when = "at every read"
    elif last.before is None:
        when = f"since {time_text(last.since)}"
    else:
        when = f"for {Unit.SECONDS.show(sum(one.until - one.since for one in silences))}"
    failed = "a read" if reads == 1 else f"{reads} reads"
    return f"its {port} could not be read {when} ({failed}: {last.reason}), while its other port could"
