"""A server that restarted half way through a recording: its counters start from zero, its gauges do not care."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from diagnostics.wire.records import BodyKind, Scrape

Page = Mapping[bytes, float]


def with_reset_in_the_middle(scrapes: Sequence[Scrape]) -> list[Scrape]:
    """Return the recording with every counter of metrics and statistics restarting from zero at half time."""
    return with_reset_at(scrapes, 0.5, (BodyKind.METRICS, BodyKind.STATISTICS))


def with_reset_at(scrapes: Sequence[Scrape], share: float, kinds: Collection[BodyKind]) -> list[Scrape]:
    """Return the recording with the counters of these kinds restarting after this share of its time."""
    times = [scrape.at for scrape in scrapes if scrape.kind in (BodyKind.METRICS, BodyKind.STATISTICS)]
    if not times:
        return list(scrapes)
    moment = min(times) + share * (max(times) - min(times))
    # Of each server its own: one replica does not go on where another stood.
    changed: dict[tuple[str, BodyKind], _Metrics | _Statistics] = {}
    result = []
    for scrape in sorted(scrapes, key=lambda scrape: scrape.at):
        body, of_kind = scrape.body, _COUNTED.get(scrape.kind) if scrape.kind in kinds else None
        if body and of_kind is not None:
            since_zero = changed.setdefault((scrape.server, scrape.kind), of_kind())
            with suppress(ValueError, KeyError, TypeError):  # it was damaged before, and stays so
                if scrape.at > moment:
                    body = since_zero.after(body)
                else:
                    since_zero.remember(body)
        result.append(replace(scrape, body=body))
    return result


class _Metrics:
    """Counters of the exposition; a series that was not there before keeps its value."""

    def __init__(self) -> None:
        self._base: Page = {}

    def remember(self, body: bytes) -> None:
        self._base = {head: value for head, value, counts in _samples(body) if counts}

    def after(self, body: bytes) -> bytes:
        counted = {head: value - self._base.get(head, 0.0) for head, value, counts in _samples(body) if counts}
        lines = []
        for line in body.splitlines():
            head = line.rpartition(b" ")[0]
            lines.append(head + f" {max(counted[head], 0):.0f}".encode() if head in counted else line)
        return b"\n".join(lines) + b"\n"


def _samples(body: bytes) -> list[tuple[bytes, float, bool]]:
    found, counts = [], False
    for line in body.splitlines():
        if line.startswith(b"# TYPE"):
            counts = line.endswith(b" counter")
        elif line and not line.startswith(b"#"):
            head, _, value = line.rpartition(b" ")
            found.append((head, float(value), counts))
    return found


class _Statistics:
    """Counters of the statistics extension, batch table included."""

    def __init__(self) -> None:
        self._base: dict[tuple[str, str], Any] = {}

    def remember(self, body: bytes) -> None:
        self._base = {(row["name"], row["version"]): row for row in json.loads(body)["model_stats"]}

    def after(self, body: bytes) -> bytes:
        rows = json.loads(body)["model_stats"]
        return json.dumps({"model_stats": [self._row(row) for row in rows]}).encode()

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        base = self._base.get((row["name"], row["version"]), {})
        sizes = {batch["batch_size"]: batch for batch in base.get("batch_stats", [])}
        batches = [
            {**_less(batch, sizes.get(batch["batch_size"], {})), "batch_size": batch["batch_size"]}
            for batch in row["batch_stats"]
        ]
        # A restarted server lists a batch size again once it has executed it.
        executed = [batch for batch in batches if batch["compute_infer"]["count"] > 0]
        return {
            **_less(row, base),
            "last_inference": row["last_inference"],
            "batch_stats": executed,
        }


def _less(value: Any, base: Any) -> Any:
    if isinstance(value, dict):
        return {key: _less(part, base.get(key, {}) if isinstance(base, dict) else {}) for key, part in value.items()}
    return max(value - (base if isinstance(base, int) else 0), 0) if isinstance(value, int) else value


_COUNTED: Mapping[BodyKind, type[_Metrics | _Statistics]] = {
    BodyKind.METRICS: _Metrics,
    BodyKind.STATISTICS: _Statistics,
}
