"""Turns parsed bodies into counter points: names to canonical counters, wire units to seconds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

from diagnostics import names
from diagnostics.window.counters import Batches, Counter, CounterTable
from diagnostics.window.points import EPOCH_COUNTERS, CounterPoint, fell
from diagnostics.wire.exposition import Series, SeriesLayout, Snapshot
from diagnostics.wire.gpu import METRICS, Gpu
from diagnostics.wire.server import LONGEST_NAME, ModelStatistics, why_no_name
from diagnostics.wire.servers.catalogue import kinds_of
from diagnostics.wire.servers.kind import ServerKind

MICROSECOND = 1e-6
ModelKey = tuple[str, str]

_FAMILIES: Mapping[str, tuple[Counter, float]] = {
    names.REQUEST_SUCCESS: (Counter.SUCCESS, 1.0),
    names.REQUEST_FAILURE: (Counter.FAILURE, 1.0),
    names.INFERENCE_COUNT: (Counter.INFERENCES, 1.0),
    names.EXECUTION_COUNT: (Counter.EXECUTIONS, 1.0),
    names.REQUEST_DURATION: (Counter.REQUEST_SECONDS, MICROSECOND),
    names.QUEUE_DURATION: (Counter.QUEUE_SECONDS, MICROSECOND),
    names.INPUT_DURATION: (Counter.INPUT_SECONDS, MICROSECOND),
    names.INFER_DURATION: (Counter.INFER_SECONDS, MICROSECOND),
    names.OUTPUT_DURATION: (Counter.OUTPUT_SECONDS, MICROSECOND),
    names.CACHE_HITS: (Counter.CACHE_HITS, 1.0),
    names.CACHE_MISSES: (Counter.CACHE_MISSES, 1.0),
    names.CACHE_MISS_DURATION: (Counter.CACHE_MISS_SECONDS, MICROSECOND),
}

# Failures that are also counted for themselves.
_REASONS: Mapping[str, Counter] = {names.REJECTED: Counter.REJECTED, names.CANCELED: Counter.CANCELED}

_GPU_FAMILIES = (
    names.GPU_UTILIZATION,
    names.GPU_POWER,
    names.GPU_POWER_LIMIT,
    names.GPU_MEMORY_USED,
    names.GPU_MEMORY_TOTAL,
)


def series_named(snapshot: Snapshot, name: str) -> Iterator[tuple[Series, float]]:
    """Yield the series of one family with their values; values that are no number are left out."""
    for position in snapshot.layout.by_name.get(name, ()):
        value = snapshot.values[position]
        if math.isfinite(value):
            yield snapshot.layout.series[position], value


def positions_of(layout: SeriesLayout, name: str, labels: Mapping[str, str]) -> tuple[int, ...]:
    """Return where the series of a family that carry these labels stand on a page of this layout."""
    model = labels.get(names.MODEL)
    near = layout.by_name.get(name, ()) if model is None else _positions_by_model(layout, name).get(model, ())
    return tuple(
        position
        for position in near
        if all(layout.series[position].labels.get(key) == wanted for key, wanted in labels.items())
    )


# As long as their page is held, and no longer: else each model would look at every other's series.
_POSITIONS: WeakKeyDictionary[SeriesLayout, dict[str, Mapping[str, Sequence[int]]]] = WeakKeyDictionary()


def _positions_by_model(layout: SeriesLayout, name: str) -> Mapping[str, Sequence[int]]:
    known = _POSITIONS.setdefault(layout, {})
    if name not in known:
        known[name] = _found_by_model(layout, name)
    return known[name]


def _found_by_model(layout: SeriesLayout, name: str) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for position in layout.by_name.get(name, ()):
        if (model := layout.series[position].labels.get(names.MODEL)) is not None:
            found.setdefault(model, []).append(position)
    return found


def counters_from_metrics(snapshot: Snapshot) -> dict[ModelKey, dict[Counter, float]]:
    """Return cumulative counters per (model, version), summed over `gpu_uuid` and failure reasons.

    Triton splits one model's counters between a series with and one without `gpu_uuid` (core, metric reporters), so
    only their sum means anything.
    """
    table: dict[ModelKey, dict[Counter, float]] = defaultdict(lambda: defaultdict(float))
    for family, (counter, scale) in _FAMILIES.items():
        for series, value in series_named(snapshot, family):
            row = table[_key(series)]
            row[counter] += value * scale
            reason = _REASONS.get(series.labels.get(names.REASON, "")) if counter is Counter.FAILURE else None
            if reason is not None:
                row[reason] += value
    for kind in kinds_of(snapshot.layout):
        _add_served(table, kind, snapshot)
    # The failure family outlives its model: a row with nothing else is a model that is gone.
    return {key: dict(row) for key, row in table.items() if Counter.SUCCESS in row and _is_named(key)}


def _add_served(table: dict[ModelKey, dict[Counter, float]], kind: ServerKind, snapshot: Snapshot) -> None:
    """Add what a server without Triton counts of its model."""
    for family, counter in kind.requests.items():
        for series, value in series_named(snapshot, family):
            if kind.model_label in series.labels:
                table[series.labels[kind.model_label], ""][Counter(counter)] += value
    for family, label in kind.errors.items():
        for series, value in series_named(snapshot, family):
            if kind.model_label in series.labels:
                failed = value if not label or kind.is_failure(series.labels.get(label, "")) else 0.0
                table[series.labels[kind.model_label], ""][Counter.FAILURE] += failed


def gpus_from_metrics(snapshot: Snapshot) -> list[Gpu]:
    """Return Triton's own gauges per GPU; a field that DCGM lost is exported as 0 and comes out as None."""
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for family in _GPU_FAMILIES:
        for series, value in series_named(snapshot, family):
            values[series.labels.get(names.GPU_UUID, "")][family] = value
    return [
        Gpu(
            index=position,
            uuid=uuid,
            source=METRICS,
            utilization=fields.get(names.GPU_UTILIZATION),
            power_watts=fields.get(names.GPU_POWER) or None,
            power_limit_watts=fields.get(names.GPU_POWER_LIMIT) or None,
            memory_used_bytes=fields.get(names.GPU_MEMORY_USED) or None,
            memory_total_bytes=fields.get(names.GPU_MEMORY_TOTAL) or None,
        )
        for position, (uuid, fields) in enumerate(sorted(values.items()))
    ]


def counters_from_statistics(model: ModelStatistics) -> dict[Counter, float]:
    """Return cumulative counters of one entry of the statistics extension; what it has lost is no zero."""
    counters = {
        Counter.SUCCESS: float(model.success.count),
        Counter.FAILURE: float(model.fail.count),
        Counter.INFERENCES: float(model.inference_count),
        Counter.EXECUTIONS: float(model.execution_count),
        Counter.REQUEST_SECONDS: model.success.seconds,
        Counter.QUEUE_SECONDS: model.queue.seconds,
        Counter.INPUT_SECONDS: model.compute_input.seconds,
        Counter.INFER_SECONDS: model.compute_infer.seconds,
        Counter.OUTPUT_SECONDS: model.compute_output.seconds,
        Counter.CACHE_HITS: float(model.cache_hit.count),
    }
    if model.cache_miss.count:  # few models have a cache, and a row is held per model and read
        counters[Counter.CACHE_MISSES] = float(model.cache_miss.count)
        counters[Counter.CACHE_MISS_SECONDS] = model.cache_miss.seconds
    for part in model.lost:
        del counters[_OF_DURATIONS[part]]
    return counters


_OF_DURATIONS = {
    "fail": Counter.FAILURE,
    "queue": Counter.QUEUE_SECONDS,
    "compute_input": Counter.INPUT_SECONDS,
    "compute_infer": Counter.INFER_SECONDS,
    "compute_output": Counter.OUTPUT_SECONDS,
}


def batches_from_statistics(model: ModelStatistics) -> dict[int, Batches]:
    """Return executions and occupied seconds per batch size: the instance's true busy time."""
    return {
        batch.size: Batches(float(batch.infer.count), batch.input.seconds + batch.infer.seconds + batch.output.seconds)
        for batch in model.batches
    }


def _is_named(key: ModelKey) -> bool:
    """Return whether a row is a model's. Names of engines that are served without Triton, and version, hold slashes."""
    model, version = key
    if len(model) > LONGEST_NAME or len(version) > LONGEST_NAME:
        return False
    parts = (model,) if version else model.split("/")
    return not any(map(why_no_name, parts))


def _key(series: Series) -> ModelKey:
    return key_of(series.labels.get(names.MODEL, ""), series.labels.get(names.VERSION, ""))


def key_of(model: str, version: str) -> ModelKey:
    """Return a model version's key, one and the same for all reads that list it."""
    if len(model) > LONGEST_NAME or len(version) > LONGEST_NAME:
        return model, version  # of no model: ten thousand of them are not to be remembered
    return _shared_key(model, version)


@lru_cache(maxsize=10_000)
def _shared_key(model: str, version: str) -> ModelKey:
    return model, version


# Beyond so many of its own largest steps the vanished row's counters are no neighbours of the new one's.
_NEIGHBOURS = 3.0


# A server of 150 models, each of which got another name between two reads.
_MOST_PAIRS = 25_000


def under_their_own_names(
    rows: Mapping[ModelKey, CounterPoint], tables: Mapping[ModelKey, CounterTable]
) -> Mapping[ModelKey, CounterPoint]:
    """Return the rows of one read by the names that they had before.

    Only a row of the newest read that listed any can have got another name: what was missing while others were listed
    vanished by itself.

    Args:
        rows: what this read lists.
        tables: what earlier reads listed.

    """
    strange = [key for key in rows if key not in tables]
    if not tables or not strange:
        return rows
    newest = max(map(_last_read, tables.values()))
    gone = {
        key: table
        for key, table in tables.items()
        if key not in rows and (last := table.last) is not None and last.mono >= newest and _is_under_way(table, last)
    }
    if len(gone) * len(strange) > _MOST_PAIRS:
        return rows  # names that come and go: nobody gives so many models other names at once
    named = dict(rows)
    for key in strange:
        own = min(
            (old for old, table in gone.items() if _goes_on(table, rows[key])),
            key=lambda old: (old[0] != key[0], _distance(gone[old], rows[key])),
            default=None,
        )
        if own is not None:
            del gone[own]
            named[own] = named.pop(key)
    return named


def _last_read(table: CounterTable) -> float:
    return table.last.mono if table.last is not None else float("-inf")


def _goes_on(table: CounterTable, point: CounterPoint) -> bool:
    """Return whether the counters of a table that is under way go on in another row, about as fast as before."""
    last = table.last
    if last is None or fell(last, point):
        return False
    steps = [step.values.get(Counter.SUCCESS, 0.0) / step.seconds for step in table.steps]
    return _distance(table, point) <= _NEIGHBOURS * max(steps) * (point.mono - last.mono)


def _is_under_way(table: CounterTable, last: CounterPoint) -> bool:
    """Return whether it counted more than what a version that was just loaded could have."""
    most = max((step.values.get(Counter.SUCCESS, 0.0) for step in table.steps), default=0.0)
    return all(last.values[counter] > _NEIGHBOURS * most > 0 for counter in EPOCH_COUNTERS if counter in last.values)


def _distance(table: CounterTable, point: CounterPoint) -> float:
    last = table.last
    return point.values.get(Counter.SUCCESS, 0.0) - (last.values.get(Counter.SUCCESS, 0.0) if last else 0.0)
