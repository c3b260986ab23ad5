"""Which stored series are one server's: several Prometheis may hold the same server, and several servers one name.

The labels that a scrape adds (`job`, `instance`, a pod's, a replica's) are told from Triton's own by what they do:
where two series differ in nothing that Triton writes, what they differ in is how they came there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from diagnostics import names
from diagnostics.wire.prometheus_answer import SampledSeries

NAME, INSTANCE, JOB = "__name__", "instance", "job"
OWN_LABELS = frozenset(
    {
        NAME,
        names.MODEL,
        names.VERSION,
        names.REASON,
        names.QUANTILE,
        names.GPU_UUID,
        names.SERVE_MODEL,
        names.ENGINE_REQUEST_TYPE,
        names.ENGINE_KV_TYPE,
        names.ENGINE_INFLIGHT_TYPE,
        names.ENGINE_V1_TYPE,
        names.ENGINE_GENERAL_TYPE,
        "le",
    }
)
_EXPORTED = "exported_"
Ways = tuple[tuple[str, str], ...]
Labelled = tuple[Mapping[str, str], SampledSeries]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSeries:
    """One server's series from one scraper, without the labels that its scrape added.

    Attributes:
        server: its `instance`; with what tells it from others where several servers share one.
        series: (own labels, samples).
        copies: how many further times the same server is stored; those are not read.

    """

    server: str
    series: tuple[Labelled, ...]
    copies: int = 0


def lanes_of(found: Iterable[SampledSeries]) -> list[ServerSeries]:
    """Return the servers that these series are of, sorted by name."""
    by_instance: dict[str, list[Labelled]] = {}
    for one in found:
        labels = _unclashed(one.labels)
        by_instance.setdefault(labels.get(INSTANCE, ""), []).append((labels, one))
    lanes = [lane for instance, series in by_instance.items() for lane in _of_instance(instance, series)]
    return sorted(lanes, key=lambda lane: lane.server)


def _unclashed(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return labels in which Triton's own win over a target's of the same name, which Prometheus put in their place."""
    clashing = {key.removeprefix(_EXPORTED): value for key, value in labels.items() if key.startswith(_EXPORTED)}
    own = {key: value for key, value in clashing.items() if key in OWN_LABELS}
    return {**labels, **own} if own else labels


def _of_instance(instance: str, series: Sequence[Labelled]) -> list[ServerSeries]:
    ways = _differing(series)
    parts: dict[Ways, list[Labelled]] = {}
    for labels, one in series:
        way = tuple((name, labels.get(name, "")) for name in ways)
        parts.setdefault(way, []).append((labels, one))
    kept: list[tuple[Ways, list[Labelled], int]] = []
    for way, part in sorted(parts.items(), key=lambda item: (-_samples(item[1]), item[0])):
        same = next((i for i, (_, other, _) in enumerate(kept) if _same_server(other, part)), None)
        if same is None:
            kept.append((way, part, 0))
        else:
            kept[same] = (*kept[same][:2], kept[same][2] + 1)
    alone = len(kept) == 1
    return [
        ServerSeries(server=_named(instance, () if alone else way), series=_bare(part), copies=copies)
        for way, part, copies in kept
    ]


def _differing(series: Sequence[Labelled]) -> list[str]:
    """Return the labels, not Triton's own, in which series differ that are otherwise the same."""
    seen: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
    differing: set[str] = set()
    for labels, _ in series:
        key = tuple(sorted((name, value) for name, value in labels.items() if name in OWN_LABELS))
        other = seen.setdefault(key, labels)
        if other is not labels:
            differing |= {
                name for name in {*labels, *other} - OWN_LABELS if labels.get(name, "") != other.get(name, "")
            }
    return sorted(differing)


def _samples(part: Sequence[Labelled]) -> int:
    return max(len(one.times) for _, one in part)


def _same_server(one: Sequence[Labelled], other: Sequence[Labelled]) -> bool:
    """Return whether the counters of one part run between those of the other: then both read the same server."""
    counts = {_key(labels): sampled for labels, sampled in one if labels[NAME] == names.REQUEST_SUCCESS}
    pairs = [(counts.get(_key(labels)), sampled) for labels, sampled in other if labels[NAME] == names.REQUEST_SUCCESS]
    if not pairs:
        return {_key(labels) for labels, _ in one} == {_key(labels) for labels, _ in other}
    return all(known is not None and _between(known, sampled) for known, sampled in pairs)


def _key(labels: Mapping[str, str]) -> tuple[str, str, str]:
    return labels[NAME], labels.get(names.MODEL, ""), labels.get(names.VERSION, "")


def _between(known: SampledSeries, sampled: SampledSeries) -> bool:
    """Return whether each sample lies between the neighbours of its time, one further for clocks that differ."""
    for at, value in zip(sampled.times, sampled.values, strict=True):
        place = bisect_left(known.times, at)
        near = known.values[max(place - 2, 0) : place + 2]
        if place in (0, len(known.times)):
            if not min(near) * 0.5 <= value <= max(near) * 2 + 1:
                return False
        elif not _reset_in(near) and not min(near) <= value <= max(near):
            return False
    return True


def _reset_in(values: Sequence[float]) -> bool:
    return any(later < sooner for sooner, later in pairwise(values))


def _named(instance: str, way: Ways) -> str:
    told = " ".join(f"{name}={value}" for name, value in way if value)
    return f"{instance} {told}".strip() or "unnamed"


def _bare(
    part: Sequence[Labelled],
) -> tuple[Labelled, ...]:
    """Return the series without the labels that all of them have alike, which no page of Triton's has."""
    first = part[0][0]
    added = {
        name
        for name, value in first.items()
        if name not in OWN_LABELS and all(labels.get(name) == value for labels, _ in part)
    } | {INSTANCE, JOB}
    return tuple(({name: value for name, value in labels.items() if name not in added}, one) for labels, one in part)
