"""What a store may answer instead of samples: one clear line each."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from diagnostics.cli.main import main
from diagnostics.errors import UsageError
from diagnostics.wire.prometheus_answer import parse_answer
from exporters.sources.access import SourceOptions
from exporters.sources.http import HttpReader
from exporters.sources.prometheus_api import PrometheusApi, parse_prometheus
from tests.builders import Stage, SyntheticTriton, model_config
from tests.promql.fake_prometheus import FakePrometheus
from tests.promql.stored import explained, stored

TRITON = SyntheticTriton(models=(Stage("slow", rate=38, execution=0.0245, queue=0.17, config=model_config("slow")),))
READS = 61  # five minutes
HTML = b"<!DOCTYPE html><html><body>Sign in to continue</body></html>"
GARBAGE = b'{"status":"success","data":{"resultType":"matrix","result":[{"metric"'


@pytest.fixture(scope="module")
def filled() -> FakePrometheus:
    return stored(TRITON.scrapes(READS), with_service=True)


@pytest.fixture
def fake(filled: FakePrometheus) -> Iterator[FakePrometheus]:
    held = {labels: list(samples) for labels, samples in filled.series.items()}
    with FakePrometheus(now=filled.now, series=held).running() as running:
        yield running


def refusing(status: int, body: bytes, *, of: str = "nv_") -> Callable[[str], tuple[int, bytes] | None]:
    return lambda query: (status, body) if of in query else None


@dataclass
class Printed:
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line on standard error."""
        (line,) = self.err.splitlines()
        assert line.startswith("diag: ")
        assert "internal error" not in line
        return line


Say = Callable[..., Printed]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    def ask(*arguments: str) -> Printed:
        code = main(["explain", *arguments])
        reported = capsys.readouterr()
        return Printed(code, reported.out, reported.err)

    return ask


FAILED = json.dumps({"status": "error", "errorType": "execution", "error": "the query is too expensive"}).encode()


@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [
        (
            401,
            b"",
            3,
            "credentials are missing; give credentials: $DIAG_BEARER_TOKEN, $DIAG_BASIC_AUTH, --bearer-token-file",
        ),
        (403, b"", 3, "HTTP 403"),
        (500, b"oops", 3, "HTTP 500; look at the store's log, or ask again later"),
        (504, b"", 3, "HTTP 504 to {__name__"),
        (404, b"404 page not found", 3, "has no Prometheus API (HTTP 404); give the address under which"),
        (
            400,
            json.dumps({"status": "error", "error": "parse error: unexpected"}).encode(),
            2,
            "parse error: unexpected",
        ),
        (400, b"Client sent an HTTP request to an HTTPS server.", 3, "(HTTP 400); look at the address: a port that"),
        (422, FAILED, 3, "HTTP 422: the query is too expensive"),
        (503, FAILED, 3, "HTTP 503: the query is too expensive"),
        (200, HTML, 3, "answers with something else than query results: '<!DOCTYPE html>"),
        (200, GARBAGE, 3, "answers with something else than query results"),
        (200, b"", 3, "answers with something else than query results"),
        (
            200,
            b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
            3,
            "holds nothing of a Triton in the",
        ),
        (200, b'{"status":"error","errorType":"timeout","error":"query timed out"}', 3, "query timed out"),
        (200, b'{"status":"success","data":null}', 3, 'answers without a result: \'{"status"'),
        (200, b'{"status":"error"}', 3, "the query failed: no reason is given; look at the store's log"),
        (302, b"", 3, "redirect to elsewhere, not followed; give the address that answers by itself"),
    ],
)
def test_an_answer_that_is_no_samples_is_one_line(
    fake: FakePrometheus, say: Say, status: int, body: bytes, code: int, words: str
) -> None:
    fake.refuse = refusing(status, body)
    result = say(fake.url)
    assert result.code == code
    line = result.line
    assert words in line
    assert f"prometheus+http://127.0.0.1:{fake.port}" in line


@pytest.mark.parametrize("time", ["NaN", "+Inf", "0", "1796000000000"])
def test_a_store_that_does_not_tell_its_time_is_one_line(fake: FakePrometheus, say: Say, time: str) -> None:
    body = f'{{"status":"success","data":{{"resultType":"scalar","result":[1,"{time}"]}}}}'.encode()
    fake.refuse = refusing(200, body, of="time()")
    result = say(fake.url)
    assert (result.code, "does not tell its time; look at the store's clock" in result.line) == (3, True)


def test_a_login_that_is_redirected_to_shows_no_token() -> None:
    login = {"Location": "https://login.example/oauth?state=s3cret#t0ken"}
    refusal = HttpReader(SourceOptions())._refusal(302, login, b"")
    assert str(refusal) == "HTTP 302 redirect to https://login.example/oauth, not followed"


def test_series_without_a_name_are_none(fake: FakePrometheus, say: Say) -> None:
    row = f'{{"metric":{{"job":"triton"}},"values":[[{fake.now - 9},"1"]]}}'
    fake.refuse = refusing(200, f'{{"status":"success","data":{{"resultType":"matrix","result":[{row}]}}}}'.encode())
    assert "holds nothing of a Triton" in say(fake.url).line


def test_a_store_that_cannot_be_reached_is_one_line(say: Say) -> None:
    result = say("prometheus+http://127.0.0.1:9")
    assert (result.code, "connection refused" in result.line) == (3, True)


def test_a_store_has_longer_than_a_server_unless_a_timeout_was_chosen_even_the_servers() -> None:
    address = parse_prometheus("prometheus+http://127.0.0.1:1")
    requested = [PrometheusApi(address, SourceOptions(timeout=chosen)).options.timeout for chosen in (None, 5.0, 0.3)]
    assert requested == [30.0, 5.0, 0.3]


def test_a_store_that_does_not_answer_in_time_is_one_line(fake: FakePrometheus, say: Say) -> None:
    release = threading.Event()
    fake.refuse = lambda _: (503, b"") if release.wait(10) else None
    result = say(fake.url, "--timeout", "100ms")
    release.set()
    assert (result.code, "no answer within 0.1 s to time(); look at the store's load" in result.line) == (3, True)


def test_a_selector_that_matches_nothing_is_one_line(fake: FakePrometheus, say: Say) -> None:
    result = say(f'{fake.url}?selector={{job="other"}}')
    assert result.code == 3
    assert "look at the selector" in result.line


def test_a_selector_reaches_the_store(fake: FakePrometheus, say: Say) -> None:
    fake.scrape_all(SyntheticTriton(models=(Stage("other", rate=5),)).scrapes(READS), job="elsewhere", instance="b")
    with_all = say(fake.url)
    chosen = say(f'{fake.url}?selector={{job="triton"}}')
    assert "from b, triton-0" in with_all.out
    assert chosen.out.rstrip().endswith("from triton-0")


def test_credentials_and_a_tenant_reach_the_store_and_are_shown_nowhere(
    fake: FakePrometheus, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIAG_BEARER_TOKEN", "hush-hush")
    fake.warnings = ["no such token as hush-hush"]
    result = say(fake.url, "--header", "X-Scope-OrgID: chat")
    assert result.code == 0
    assert {one["Authorization"] for one in fake.headers} == {"Bearer hush-hush"}
    assert {one["X-Scope-OrgID"] for one in fake.headers} == {"chat"}
    assert "hush-hush" not in result.out + result.err


def test_a_password_in_the_address_is_used_and_not_shown(fake: FakePrometheus, say: Say) -> None:
    fake.refuse = refusing(403, b"")
    result = say(fake.url.replace("//", "//me:hush-hush@"))
    assert "hush-hush" not in result.line
    assert fake.headers[0]["Authorization"].startswith("Basic ")


def test_a_store_that_takes_no_forms_is_requested_by_url(fake: FakePrometheus, say: Say) -> None:
    fake.only_get = True
    assert say(fake.url).code == 0


def test_what_is_missing_of_an_answer_is_a_blind_spot() -> None:
    fake = stored(TRITON.scrapes(READS), with_service=True)
    fake.warnings = ["PromQL: sidecar of cluster eu did not answer"]
    explanation = explained(fake)
    (spot,) = [spot for spot in explanation.blind_spots if "sidecar of cluster eu" in spot.why]
    assert spot.what == "a part of what is stored"


def test_victoria_metrics_says_that_an_answer_is_partial_in_its_own_way() -> None:
    body = b'{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[]}}'
    assert parse_answer(body).warnings == ("a part of the store did not answer",)


def test_native_histograms_are_left_out() -> None:
    result = '{"metric":{"__name__":"h"},"histograms":[[1,{"count":"1","sum":"2","buckets":[]}]]}'
    body = f'{{"status":"success","data":{{"resultType":"matrix","result":[{result}]}}}}'.encode()
    assert parse_answer(body).series == ()


def test_what_the_service_exported_is_not_needed(fake: FakePrometheus, say: Say) -> None:
    fake.refuse = refusing(503, FAILED, of="diag_")
    result = say(fake.url, "--output", "json")
    assert result.code == 0
    spots = json.loads(result.out)["blind_spots"]
    assert any("HTTP 503" in spot["why"] for spot in spots)


def test_other_sources_beside_a_store_are_refused(fake: FakePrometheus, say: Say) -> None:
    for arguments in ([fake.url, fake.url], [fake.url, "http://triton:8000"]):
        assert "is explained alone" in say(*arguments).line
    both = say(fake.url, "--window", "5m", "--since", "5m").line
    assert both.endswith("mean the same here; give one of them")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--at", "2099-01-01T00:00:00Z"), "--at: lies in the future; the store's clock is at 1970-01-12T"),
        (("--at", "1969-12-31"), "--at: lies before 1970; write 03:12"),
        (("--since", "36500d"), "--since: reaches back beyond 1970; write 5m, 12h or 7d"),
        (("--window", "36500d"), "--window: reaches back beyond 1970; write 5m, 12h or 7d"),
    ],
)
def test_a_span_that_no_store_can_hold_is_one_line(
    fake: FakePrometheus, say: Say, given: tuple[str, str], words: str
) -> None:
    result = say(fake.url, *given)
    assert (result.code, words in result.line) == (2, True)
    assert fake.queries == ["time()"]
    assert "a hundred years at most" in say(fake.url, "--timeout", "36501d").line


@pytest.mark.parametrize(
    "address",
    [
        "prometheus+ftp://host",
        "prometheus+http://",
        "prometheus+http://host:port",
        "prometheus+http://host?query=up",
        "prometheus+http://host?selector=up",
        'prometheus+http://host?selector={job="a"',
        'prometheus+http://host?selector=job="a"}',
        'prometheus+http://host?selector={job="a"} or vector(1)',
        'prometheus+http://host?selector={job="a"}[5m]',
        "prometheus+http://host#selector",
    ],
)
def test_what_is_no_address_of_a_store_is_one_line(address: str, say: Say) -> None:
    result = say(address)
    assert result.code == 2
    assert result.line


def test_a_store_that_is_given_for_a_server_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "prometheus+http://me:hush@host:9090", "-o", "never.tar.xz"]) == 2
    reported = capsys.readouterr().err.splitlines()
    assert reported == [
        "diag: prometheus+http://[REDACTED]@host:9090: is a store, not a server; ask it with diag explain"
    ]


def test_the_parts_of_an_address() -> None:
    one = parse_prometheus(r'prometheus+https://me:x@mimir:443/prometheus/api/v1?selector={job=~"a.+",region!="b,\"c"}')
    assert one.base == "https://mimir:443/prometheus"
    assert one.user == "me:x"
    assert one.matchers == ('job=~"a.+"', r'region!="b,\"c"')
    assert one.selector('x="y"') == r'{x="y",job=~"a.+",region!="b,\"c"}'
    assert one.beside().matchers == (r'region!="b,\"c"',)


def test_a_range_of_steps_is_requested_as_such() -> None:
    fake = FakePrometheus(now=100.0)
    with fake.running(), pytest.raises(UsageError):
        PrometheusApi(parse_prometheus(fake.url), SourceOptions()).ranged("up", 0.0, 60.0, 15.0)
    span = {"start": "0.000", "end": "60.000", "step": "15.000"}
    assert fake.forms[-1] == {"query": "up", **span, "nocache": "1", "timeout": "27000ms"}


@pytest.mark.parametrize(
    "source", ["prometheus+http://[::1", "prometheus+http://127.0.0.1:99999", "prometheus+http://"]
)
def test_what_is_no_address_is_reported_with_the_form_of_one(source: str) -> None:
    with pytest.raises(UsageError, match=r"give prometheus\+http://host:9090"):
        parse_prometheus(source)
