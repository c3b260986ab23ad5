"""Answers of a store that are larger than memory should hold are refused before objects are made of them."""

from __future__ import annotations

import pytest

from diagnostics.errors import CollectError
from diagnostics.wire import prometheus_answer
from diagnostics.wire.prometheus_answer import QueryResult, TooManySamples, parse_answer, parse_values
from exporters.sources import prometheus_samples
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_api import PrometheusApi, TooMuch, parse_prometheus
from exporters.sources.prometheus_samples import SampleReader
from tests.collect.fake_triton import FakeServer, page

MATRIX = '{"status":"success","warnings":%s,"data":{"resultType":"matrix","result":[%s]}}'


def series(samples: int = 1, labels: str = "") -> str:
    times = ",".join(f'[{at},"1"]' for at in range(samples))
    return '{"metric":{"__name__":"a"%s},"values":[%s]}' % (labels, times)  # noqa: UP031 - braces


def answer(*every: str, warnings: str = "[]") -> bytes:
    return (MATRIX % (warnings, ",".join(every))).encode()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MOST_SERIES", 4), ("MOST_SAMPLES", 20), ("MOST_OF_A_SERIES", 8)):
        monkeypatch.setattr(prometheus_answer, name, most)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (answer(*[series()] * 5), "4 series"),
        (answer(*["{}"] * 11), "4 series"),
        (answer(*["7"] * 5, *["[]"] * 30), "20 samples"),
        (answer(series(30)), "20 samples"),
        (answer(series(9)), "8 samples of one series"),
    ],
    ids=range(5),
)
def test_an_answer_is_refused_by_what_it_would_take_in_memory(body: bytes, what: str) -> None:
    with pytest.raises(TooManySamples, match=what):
        parse_answer(body)


def test_an_answer_as_large_as_allowed_is_read() -> None:
    assert sum(len(one.times) for one in parse_answer(answer(*[series(4)] * 4)).series) == 16
    assert len(parse_answer(answer(series(8))).series[0].times) == 8
    with pytest.raises(TooManySamples, match="4 values"):
        parse_values(b'{"data":["a","b","c","d","e","f"]}')


def test_labels_and_warnings_without_end_cost_themselves_alone() -> None:
    long = series(1, "".join(f',"a{number}":""' for number in range(9_000)))
    read = parse_answer(answer(long, series(2), warnings="[%s]" % ",".join(['"w"'] * 300_000)))  # noqa: UP031 - braces
    assert [len(one.times) for one in read.series] == [2]
    assert [text[:30] for text in read.warnings] == [
        "the store gave more than 1 MiB",
        "a series cannot be read: '{\"me",
    ]


def test_an_answer_that_is_too_large_is_one_to_be_split() -> None:
    with FakeServer({"POST /api/v1/query": page(answer(series(9)), "application/json")}).running() as store:
        api = PrometheusApi(parse_prometheus(f"prometheus+{store.url}"), SourceOptions(timeout=5.0))
        with pytest.raises(TooMuch, match="8 samples of one series"):
            api.instant("up")


class Splitting(PrometheusApi):
    """A store that gives 12 samples of every span of a minute, and refuses longer ones."""

    def samples(self, selector: str, start: float, end: float) -> QueryResult:
        if end - start > 60:
            raise TooMuch("too much")
        return parse_answer(answer(series(6), series(6, ',"b":"c"')))


def test_samples_of_many_answers_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_samples, "MOST_SAMPLES", 20)
    reader = SampleReader(Splitting(parse_prometheus("prometheus+http://store"), SourceOptions(timeout=5.0)))
    reader.read(["a"], 0.0, 240.0)
    assert reader.warnings == ["120 s up to 00:04:00Z: 20 samples were read before"]


def test_a_warning_names_a_few_servers_of_many() -> None:
    part = prometheus_samples.SampleQuery(start=0.0, end=60.0, servers=tuple(map(str, range(1000))))
    assert prometheus_samples._named(part) == "60 s up to 00:01:00Z of 0, 1, 2, 3, 4 and 995 more"
    assert issubclass(TooMuch, CollectError)
