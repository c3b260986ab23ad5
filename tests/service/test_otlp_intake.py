"""Spans that arrive go to the deployment they are of, within what may come in a second."""

from __future__ import annotations

import json
import time

import pytest

from diagnostics.diagnosis.notes import trace_notes
from diagnostics.service import span_routing
from diagnostics.service.deployment import RoutedSpans
from diagnostics.service.otlp_intake import ExportResponse, ExportStatus, Form
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.span_routing import PERIOD
from diagnostics.window.rolling import RollingWindow
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.spans import Recorded, write_json
from diagnostics.wire.trace_export import decode_spans
from tests.builders_traces import export, span, trace_id
from tests.service.receiving import SPANS_A_TRACE, Recording, Watched, body
from tests.store.lived import deployment, rounds
from tests.wire.test_spans import as_protobuf, hexadecimal

LOOPBACK, STRANGER = "127.0.0.1", "192.0.2.7"


def take(watched: Watched, sent: bytes, peer: str = LOOPBACK, *, authenticated: bool = False) -> ExportResponse:
    return watched.intake.accept(sent, Form.JSON, peer, authenticated=authenticated)


def named(sent: bytes, attribute: str, value: str) -> bytes:
    """Return an export whose sender says of itself what it is called."""
    made = json.loads(sent)
    made["resourceSpans"][0]["resource"]["attributes"].append({"key": attribute, "value": {"stringValue": value}})
    return json.dumps(made).encode()


def caller(number: int) -> bytes:
    """Return the span of a service that called a server, in a trace of that server."""
    now = time.time() - 1_000_000.0
    return export([span(trace_id(number), "caller", "POST", now, now + 1, kind=3)], "shell")


def test_the_only_deployment_is_given_every_span():
    watched = Watched()
    assert take(watched, body(1, 2)) == ExportResponse()
    assert len(watched.kept["chat"].spans) == 2 * SPANS_A_TRACE
    assert watched.counted("accepted") == 2 * SPANS_A_TRACE


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("service.instance.id", "b"),
        ("service.instance.id", "b.example:8002"),
        ("service.instance.id", "http://b.example:8000"),
        ("host.name", "b.example"),
    ],
)
def test_a_span_goes_to_the_deployment_that_its_sender_names(attribute: str, value: str):
    watched = Watched(("a", "b"))
    watched.serves("a", "x")
    watched.serves("b", "x")
    take(watched, named(body(1), attribute, value))
    assert (len(watched.kept["a"].spans), len(watched.kept["b"].spans)) == (0, SPANS_A_TRACE)


def test_a_trace_goes_whole_to_the_deployment_that_alone_serves_a_model_of_it():
    watched = Watched(("a", "b"))
    watched.serves("a", "other", "tokenizer")
    watched.serves("b", "llm", "tokenizer")
    take(watched, body(1))
    assert (len(watched.kept["a"].spans), len(watched.kept["b"].spans)) == (0, SPANS_A_TRACE)


def test_a_callers_spans_wait_for_the_servers_spans_of_their_trace():
    watched = Watched(("a", "b"))
    watched.serves("b", "llm")
    take(watched, caller(1))
    assert watched.counted("accepted") == 0
    take(watched, body(1))
    take(watched, caller(1))
    assert [one.service for one in watched.kept["b"].spans].count("shell") == 2
    assert watched.counted("accepted") == SPANS_A_TRACE + 2


def test_spans_that_nothing_assigns_are_given_up_in_time_and_counted(monkeypatch: pytest.MonkeyPatch):
    watched = Watched(("a", "b"))
    take(watched, caller(1))
    assert watched.counted("unassigned") == 0
    monkeypatch.setattr(span_routing, "PATIENCE", 0.0)
    take(watched, caller(2))
    assert watched.counted("unassigned") >= 1


def test_spans_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(span_routing, "MOST_WAITING", 10)
    watched = Watched(("a", "b"))
    for number in range(50):
        take(watched, caller(number))
    assert watched.counted("unassigned") == 40


def test_a_model_that_two_deployments_serve_assigns_nothing():
    watched = Watched(("a", "b"))
    watched.serves("a", "llm")
    watched.serves("b", "llm")
    take(watched, body(1))
    assert not watched.kept["a"].spans
    assert not watched.kept["b"].spans


def test_beyond_the_allowance_exporters_wait_until_it_is_paid_back():
    watched = Watched(per_second=SPANS_A_TRACE)
    assert take(watched, body(1)).status is ExportStatus.OK
    refused = take(watched, body(2))
    assert (refused.status, refused.retry_after) == (ExportStatus.THROTTLED, 1)
    assert len(watched.kept["chat"].spans) == SPANS_A_TRACE
    watched.now = 1.0
    assert take(watched, body(2)).status is ExportStatus.OK


def test_a_sender_below_its_share_is_not_refused_because_of_another():
    watched = Watched(per_second=2 * SPANS_A_TRACE)
    for _ in range(20):
        take(watched, body(1), STRANGER)
    assert take(watched, body(2), STRANGER).status is ExportStatus.THROTTLED
    assert take(watched, body(3), "192.0.2.8").status is ExportStatus.OK
    assert take(watched, body(4), "192.0.2.8").status is ExportStatus.THROTTLED


def test_of_a_body_with_more_than_a_seconds_worth_the_rest_is_refused():
    watched = Watched(per_second=10)
    answer = take(watched, body(1, 2))
    assert (answer.status, answer.rejected) == (ExportStatus.PARTIAL, 2)
    assert (watched.counted("accepted"), watched.counted("refused")) == (10, 2)


def test_spans_that_cannot_be_read_are_reported_and_spoil_no_others():
    made = json.loads(body(1))
    made["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["startTimeUnixNano"] = "0"
    watched = Watched()
    answer = take(watched, json.dumps(made).encode())
    assert (answer.status, answer.rejected) == (ExportStatus.PARTIAL, 1)
    assert "could not be read" in answer.message
    assert watched.kept["chat"].traced[0].about.corrupt == 1


def test_a_deployment_that_is_behind_refuses_spans():
    watched = Watched()
    watched.kept["chat"].full = True
    answer = take(watched, body(1))
    assert (answer.status, answer.rejected) == (ExportStatus.PARTIAL, SPANS_A_TRACE)
    assert (watched.counted("accepted"), watched.counted("refused")) == (0, SPANS_A_TRACE)


@pytest.mark.parametrize("sent", [b"", b"{", b"[]", b"\x1f\x8b\x08\x00", b"null", b"<html>"])
def test_what_is_no_export_request_is_malformed(sent: bytes):
    watched = Watched()
    assert take(watched, sent).status is ExportStatus.MALFORMED
    assert not watched.kept["chat"].traced


def test_what_a_deployment_was_given_is_recorded():
    watched = Watched(memory=Recording())
    take(watched, body(1))
    ((name, scrape),) = watched.memory.scrapes
    assert (name, scrape.kind) == ("chat", BodyKind.TRACES)
    assert decode_spans(scrape.body).spans == watched.kept["chat"].spans


def test_a_secret_in_a_span_reaches_neither_the_window_nor_the_recording():
    watched = Watched(memory=Recording())
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    take(watched, body(1, service=f"shell https://bob:{secret}@x/").replace(b"InferRequest", f"GET {secret}".encode()))
    assert secret not in repr(watched.kept["chat"].spans)
    assert secret.encode() not in watched.memory.scrapes[0][1].body


def test_of_a_body_of_two_deployments_each_is_recorded_with_its_own_spans():
    watched = Watched(("a", "b"), memory=Recording())
    watched.serves("a", "llm")
    watched.serves("b", "other")
    both = json.loads(body(1))
    both["resourceSpans"] += json.loads(named(body(2), "service.instance.id", "b"))["resourceSpans"]
    take(watched, json.dumps(both).encode())
    recorded = {name: decode_spans(scrape.body).spans for name, scrape in watched.memory.scrapes}
    assert {name: {one.trace for one in spans} for name, spans in recorded.items()} == {
        "a": {trace_id(1)},
        "b": {trace_id(2)},
    }


def test_spans_that_are_written_again_are_the_same():
    spans = decode_spans(named(body(1, 2), "service.instance.id", "b")).spans
    assert decode_spans(write_json(spans)).spans == spans


@pytest.mark.parametrize(
    ("peer", "authenticated", "vouched"),
    [
        (LOOPBACK, False, True),
        ("::1", False, True),
        ("::ffff:127.0.0.1", False, True),
        (STRANGER, True, True),
        (STRANGER, False, False),
        ("::ffff:192.0.2.7", False, False),
        ("", False, False),
    ],
)
def test_nobody_vouches_for_a_stranger_without_credentials(peer: str, authenticated: bool, vouched: bool):
    watched = Watched()
    take(watched, body(1), peer, authenticated=authenticated)
    assert watched.kept["chat"].traced[0].about.vouched is vouched


@pytest.mark.parametrize("vouched", [True, False])
def test_the_explanation_tells_of_spans_that_nobody_vouches_for(vouched: bool):
    watched = deployment(OwnMetrics())
    for scrapes in rounds(3, begin=time.time() - 30):
        for scrape in scrapes:
            watched.give(scrape)
    watched.give(RoutedSpans(decode_spans(body(1)).spans, time.time(), Recorded(vouched=vouched)))
    watched.take_in()
    notes = trace_notes(watched.evaluate().explanation.evidence, ())
    stated = [note.what for note in notes if "without credentials" in note.why]
    assert stated == ([] if vouched else [f"{SPANS_A_TRACE} of {SPANS_A_TRACE} spans"])


def test_of_more_than_can_be_kept_whole_traces_are_left_out_and_counted():
    watched = Watched(kept_per_second=10, memory=Recording())
    for number in range(0, 400, 20):
        assert take(watched, body(*range(number, number + 20))) == ExportResponse()
    kept = watched.kept["chat"].spans
    assert 0 < len(kept) <= 3 * 10 * PERIOD
    assert len(kept) == SPANS_A_TRACE * len({one.trace for one in kept})
    assert watched.counted("accepted") + watched.counted("left_out") == 400 * SPANS_A_TRACE
    assert sum(len(decode_spans(one.body).spans) for _, one in watched.memory.scrapes) == len(kept)
    watched.now = PERIOD
    for number in range(400, 800, 20):
        take(watched, body(*range(number, number + 20)))
    assert 0 < len(watched.kept["chat"].spans) - len(kept) <= 10 * PERIOD


def test_when_fewer_come_more_of_them_are_kept_again():
    watched = Watched(kept_per_second=1)
    take(watched, body(*range(20)))
    assert watched.kept["chat"].traced[-1].about.share < 1
    watched.now = 10 * PERIOD
    take(watched, body(21))
    take(watched, body(22))
    assert watched.kept["chat"].traced[-1].about.share == 1


def test_the_traces_that_are_left_out_are_the_same_in_protobuf():
    json_body = hexadecimal(body(*range(40)))
    kept = []
    for form, sent in ((Form.JSON, json_body), (Form.PROTOBUF, as_protobuf(json_body))):
        watched = Watched(kept_per_second=2)
        for _ in range(3):
            watched.intake.accept(sent, form, LOOPBACK, authenticated=True)
        kept.append([one.trace for one in watched.kept["chat"].spans])
    assert kept[0] == kept[1]
    assert len(set(kept[0])) < 40


def test_a_deployment_without_many_spans_keeps_all_of_them_beside_one_with_too_many():
    watched = Watched(("a", "b"), kept_per_second=4)
    watched.serves("a", "x")
    watched.serves("b", "x")
    take(watched, named(body(1), "service.instance.id", "b"))
    for number in range(0, 200, 20):
        take(watched, named(body(*range(number, number + 20)), "service.instance.id", "a"))
    take(watched, named(body(2), "service.instance.id", "b"))
    assert watched.kept["a"].traced[-1].about.share < 1
    assert len(watched.kept["b"].spans) == 2 * SPANS_A_TRACE


def test_a_replay_says_of_spans_what_the_live_verdict_stated():
    watched = Watched(kept_per_second=4, memory=Recording())
    for number in range(0, 60, 10):
        take(watched, body(*range(number, number + 10)), STRANGER)
    live, replayed = (RollingWindow("chat", 300.0) for _ in range(2))
    for traced in watched.kept["chat"].traced:
        live.add_spans(*traced)
    for _, scrape in watched.memory.scrapes:
        replayed.add(scrape)
    for window in (live, replayed):
        window.add(Scrape(server="a", kind=BodyKind.INDEX, at=time.time(), mono=time.monotonic(), body=b"[]"))
    counts = live.window().traces.counts
    assert replayed.window().traces.counts == counts
    assert counts.unauthenticated == counts.received > 0
    assert 0 < counts.kept_share < 1
