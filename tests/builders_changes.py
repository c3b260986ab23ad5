"""A synthetic Triton whose settings are changed while it is read: its counters go on, with other traffic behind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, Counts, Stage, SyntheticTriton

INTERVAL = 5.0
Configs = Mapping[str, object]


def together(one: Counts, other: Counts) -> Counts:
    """Return the sum of two counts."""
    names = ("requests", "items", "executions", "seconds", "queue", "input", "infer", "output")
    sums = {name: getattr(one, name) + getattr(other, name) for name in names}
    sums["seconds"] = one.spent + other.spent
    sizes = {**one.batches, **other.batches}
    zero = (0.0, 0.0)
    batches = {
        size: (
            one.batches.get(size, zero)[0] + other.batches.get(size, zero)[0],
            one.batches.get(size, zero)[1] + other.batches.get(size, zero)[1],
        )
        for size in sizes
    }
    return replace(one, **sums, batches=batches)


def changed_in_place(
    first: Stage, second: Stage, *, at: int = 12, reads: int = 24, interval: float = INTERVAL, before: float = 100.0
) -> list[Scrape]:
    """Return the bodies of so many reads of one model whose settings are changed after read `at`.

    Nothing but its configuration tells of it: the counters go on. It is read again in each round, and kept where it
    differs, as the recorder does.
    """
    change = at * interval + 0.4 * interval

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Mapping[tuple[str, str], Counts]:
        time = number * interval
        now = together(first.after(before + min(time, change)), second.after(max(time - change, 0.0)))
        return {key: now if key[0] == first.name else row for key, row in rows.items()}

    scrapes = SyntheticTriton(models=(first,), alter=alter, interval=interval, before=before).scrapes(reads)
    return sorted([*scrapes, config_read(second, (at + 1) * interval + 0.05)], key=lambda one: one.mono)


def config_read(stage: Stage, time: float) -> Scrape:
    """Return the body of a stage's configuration, read so many seconds after the first read."""
    body = json.dumps(stage.config).encode()
    at = START + time
    return Scrape(server=SERVER, kind=BodyKind.CONFIG, name=stage.name, at=at, mono=at, body=body)
