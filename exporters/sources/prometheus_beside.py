"""What a store holds beside Triton's pages: what `diag serve` exported of the servers, and dcgm-exporter's pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from diagnostics import names
from diagnostics.errors import CollectError
from diagnostics.window.from_samples import SamplePages, configurations, hosts, statistics
from diagnostics.window.lanes import INSTANCE, Labelled
from diagnostics.window.parsed import Parsed
from diagnostics.wire import exported, exported_host
from diagnostics.wire.prometheus_answer import SampledSeries
from exporters.sources.prometheus_samples import SampleReader, among

# The label by which dcgm-exporter's series name their card.
CARD = "UUID"
_EXPORTED = f'__name__=~"{"|".join((*exported.FAMILIES, *exported_host.FAMILIES))}"'
_OWN_LABELS = exported.LABELS | {*exported_host.PROCESS_LABELS}
_CARDS = f'__name__=~"{names.DCGM_PREFIX}.+"'
# VictoriaMetrics takes queries of 16 KiB; beyond, what is stored of all servers is read.
_LONGEST_MATCHER = 8_000
_Way = tuple[tuple[str, str], ...]


def exported_records(reader: SampleReader, servers: Sequence[str], span: tuple[float, float]) -> Iterator[Parsed]:
    """Yield statistics, configurations and machines of some servers as `diag serve` exported them.

    Where several services watch a server, that one counts whose samples are the newest.
    """
    ways: dict[str, dict[_Way, list[SampledSeries]]] = {}
    for one in _read(reader, [_EXPORTED, *_few("server", servers)], span):
        way = _added(one.labels, _OWN_LABELS)
        ways.setdefault(one.labels.get("server", ""), {}).setdefault(way, []).append(one)
    for server in servers:
        if server in ways:
            series = max(ways[server].values(), key=_newest)
            yield from configurations(server, series)
            yield from statistics(server, series)
            yield from hosts(server, series)


def card_records(
    reader: SampleReader, pages: Sequence[SampledSeries], make: SamplePages, span: tuple[float, float]
) -> Iterator[Parsed]:
    """Yield what dcgm-exporters say of the cards that Triton's pages name; each exporter by itself."""
    cards = sorted({card for one in pages if (card := one.labels.get(names.GPU_UUID))})
    if not cards:
        return
    exporters: dict[str, list[Labelled]] = {}
    for one in _read(reader, [_CARDS, *_few(CARD, cards)], span):
        exporters.setdefault(one.labels.get(INSTANCE, ""), []).append((one.labels, one))
    for series in exporters.values():
        yield from make.cards(series)


def _read(reader: SampleReader, matchers: Sequence[str], span: tuple[float, float]) -> Sequence[SampledSeries]:
    """Return the series; none, with a warning, where the store does not give them: Triton's own pages remain."""
    try:
        return reader.read(matchers, *span).series
    except CollectError as error:
        reader.warnings.append(error.what)
        return ()


def _few(label: str, values: Sequence[str]) -> list[str]:
    matcher = among(label, values)
    return [matcher] if len(matcher) < _LONGEST_MATCHER else []


def _added(labels: Mapping[str, str], own: frozenset[str]) -> _Way:
    return tuple(sorted((name, value) for name, value in labels.items() if name not in own))


def _newest(series: Sequence[SampledSeries]) -> tuple[float, int]:
    return max(one.times[-1] for one in series), max(len(one.times) for one in series)
