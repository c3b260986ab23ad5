"""A window rebuilt from what a Prometheus-compatible store scraped: Triton's pages, dcgm-exporter's, `diag serve`'s.

The number of queries does not grow with the number of servers: the store's clock, Triton's samples, an earlier stretch
where scrapes are rare, what `diag serve` exported, GPUs. Only a store that refuses a query is asked in parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from diagnostics.diagnosis.explanation import BlindSpot
from diagnostics.errors import CollectError
from diagnostics.window.from_samples import SamplePages
from diagnostics.window.lanes import ServerSeries, lanes_of
from diagnostics.window.parsed import Parsed
from diagnostics.wire.prometheus_answer import QueryResult, joined
from diagnostics.wire.records import BodyKind
from exporters.sources.prometheus_api import PrometheusApi
from exporters.sources.prometheus_beside import CARD, card_records, exported_records
from exporters.sources.prometheus_samples import SampleReader

# Fewer scrapes tell little of what changes within a window: where they are rare, the window is longer.
USUAL_SECONDS, LONGEST_SECONDS = 300.0, 3600.0
FEWEST_SCRAPES = 20
# A server without samples for so many scrapes is not there any more.
_MISSED_SCRAPES = 5
_TRITON = '__name__=~"nv_.+|vllm:.+|trtllm[_:].+"'
_SHOWN = 5
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWindow:
    """What a store holds of a span.

    Attributes:
        records: what was read, in time order.
        servers: the servers that it tells of.
        blind_spots: what it does not tell.

    """

    records: tuple[Parsed, ...]
    servers: tuple[str, ...]
    blind_spots: tuple[BlindSpot, ...]


def read_window(api: PrometheusApi, end: float, seconds: float | None, tell: Tell, *, configured: bool) -> StoredWindow:
    """Return what a store holds of the `seconds` before Unix second `end`.

    Args:
        api: the store.
        end: the last moment to look at.
        seconds: how long to look back; None is five minutes, or as long as twenty scrapes take.
        tell: told how long that is where it is not five minutes.
        configured: whether configurations come from elsewhere.

    Raises:
        CollectError: it does not answer, or holds nothing of a Triton.

    """
    reader = SampleReader(api)
    span = seconds or USUAL_SECONDS
    found = reader.read([_TRITON], end - span, end)
    interval = _interval(found)
    wanted = min(FEWEST_SCRAPES * interval, LONGEST_SECONDS)
    if seconds is None and wanted > span * 1.1:
        tell(f"scrapes are {interval:.0f} s apart: the last {wanted / 60:.0f} minutes are looked at, not five")
        found, span = _prolonged(reader, found, end, span, wanted)
    if not found.series:
        raise CollectError(
            f"holds nothing of a Triton in the {span:.0f} s before {_clock(end)}",
            where=str(api.address),
            hint="let it scrape Triton's metrics page (port 8002), or look at the selector and the time",
        )
    return _window(reader, found, (end - span, end), interval, configured=configured)


def _prolonged(
    reader: SampleReader, found: QueryResult, end: float, span: float, wanted: float
) -> tuple[QueryResult, float]:
    """Return what is stored of `wanted` seconds, and that; what was found, and `span`, where no more is given."""
    try:
        return joined([reader.read([_TRITON], end - wanted, end - span), found]), wanted
    except CollectError as error:
        reader.warnings.append(error.what)
        return found, span


def _window(
    reader: SampleReader, found: QueryResult, span: tuple[float, float], interval: float, *, configured: bool
) -> StoredWindow:
    lanes, pages = lanes_of(found.series), SamplePages()
    servers = [lane.server for lane in lanes]
    records = [record for lane in lanes for record in pages.of(lane)]
    records += exported_records(reader.beside("server"), servers, span)
    records += card_records(reader.beside(CARD), found.series, pages, span)
    records.sort(key=lambda record: record.scrape.mono)
    configs = {record.scrape.server for record in records if record.scrape.kind is BodyKind.CONFIG}
    unseen = [BlindSpot(what="a part of what is stored", why=text, fix=_ASK_LESS) for text in reader.warnings]
    unseen += _ended(lanes, span[1], interval)
    unseen += _copied(lanes)
    if not configured and (bare := [server for server in servers if server not in configs]):
        unseen.append(_unconfigured(bare))
    return StoredWindow(records=tuple(records), servers=tuple(servers), blind_spots=tuple(unseen))


_ASK_LESS = "ask again, for less with --since or a selector, or with a longer --timeout"


def _interval(found: QueryResult) -> float:
    """Return the seconds between two scrapes; that of the usual window where nothing was scraped twice."""
    rhythms = {id(one.times): one.times for one in found.series if len(one.times) > 1}
    gaps = [median(later - sooner for sooner, later in pairwise(times)) for times in rhythms.values()]
    if gaps:
        return median(gaps)
    return USUAL_SECONDS if found.series else 0.0


def _ended(lanes: Sequence[ServerSeries], end: float, interval: float) -> Iterator[BlindSpot]:
    for lane in lanes:
        last = max(sampled.times[-1] for _, sampled in lane.series)
        if end - last > max(_MISSED_SCRAPES * interval, 1.0):
            yield BlindSpot(
                what=f"{lane.server} after {_clock(last)}",
                why="there are no samples of it",
                fix="look whether it runs, is still scraped, or goes by another name since",
            )


def _copied(lanes: Sequence[ServerSeries]) -> Iterator[BlindSpot]:
    copied = [lane.server for lane in lanes if lane.copies]
    if copied:
        yield BlindSpot(
            what=f"further copies of {_some(copied)}",
            why="the same servers are stored more than once; the copy with the most samples is read",
            fix="choose one with a selector",
        )


def _unconfigured(servers: Sequence[str]) -> BlindSpot:
    return BlindSpot(
        what=f"instance counts, settings and batch distributions of {_some(servers)}",
        why="Triton's metrics page does not have them",
        fix="run `diag serve` and let it be scraped too, or give the configurations with --repository",
    )


def _some(listed: Sequence[str]) -> str:
    few = ", ".join(listed[:_SHOWN])
    return few if len(listed) <= _SHOWN else f"{few} and {len(listed) - _SHOWN} more"


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
