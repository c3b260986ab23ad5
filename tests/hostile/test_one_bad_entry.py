"""One model, sender or server with absurd names or numbers is refused, named and counted; all else is judged."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.render.explanation.json import report
from diagnostics.window.parsed import ScrapeParser
from diagnostics.window.window import window_of
from diagnostics.wire.exposition import MOST_LINES
from diagnostics.wire.prometheus_answer import parse_answer, parse_values
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.redact import redact
from diagnostics.wire.server import parse_index, parse_statistics, read_index, read_statistics, why_no_name
from diagnostics.wire.trace_export import decode_spans
from tests.builders import explained
from tests.captures.recorded import scrapes_of

CAUSE = "cpu-handed-single-instance"
NAMES = ["\\ud800bad", "../../etc/passwd", "a/b", ".", "..", "", "a\\u0000b", 'a\\nb\\"}', "x" * 9999, "\\u202ee"]
NUMBERS = ["NaN", "Infinity", "-Infinity", "1e308", "18446744073709551617", "1" + "0" * 5000, "[1]"]


def beside(body: bytes, name: str = "evil", count: str = "5") -> bytes:
    """Return statistics with one more entry, written by hand."""
    more = f'{{"name":"{name}","version":"1","inference_stats":{{"success":{{"count":{count},"ns":{count}}}}}}}'
    return body.rstrip()[: body.rstrip().rindex(b"]")] + b"," + more.encode() + b"]}"


def altered(change: Callable[[bytes], bytes]) -> list[Scrape]:
    return [
        replace(one, body=change(one.body)) if one.kind is BodyKind.STATISTICS and one.body else one
        for one in scrapes_of(CAUSE)
    ]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_that_no_model_can_have_is_refused_and_the_cause_is_still_found(name: str):
    found = explained(window_of(altered(lambda body: beside(body, name))))
    assert found.actionable[0].check == "single-instance-serialization"
    (spot,) = [one for one in found.blind_spots if one.what.startswith("1 entry of")]
    assert "name" in spot.why
    assert json.dumps(report(found)).encode()
    assert len(spot.what) < 200


@pytest.mark.parametrize("count", NUMBERS, ids=[one[:12] for one in NUMBERS])
def test_a_number_that_no_counter_has_takes_its_own_entry_away_alone(count: str):
    found = explained(window_of(altered(lambda body: beside(body, count=count))))
    assert found.actionable[0].check == "single-instance-serialization"
    assert [one for one in found.blind_spots if "'evil'" in one.what]


LINES = [
    b"nv_bad{ 1",
    b'nv_inference_count{model="evil",version="1"} x',
    b'nv_inference_count{model="\xff",version="1"} 1',
    b"\0\0",
    b"<html>",
]


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_line_that_is_no_metric_takes_no_other_away(line: bytes):
    changed = [
        replace(one, body=one.body + line + b"\n") if one.kind is BodyKind.METRICS and one.body else one
        for one in scrapes_of(CAUSE)
        if one.kind is not BodyKind.STATISTICS
    ]
    found = explained(window_of(changed))
    assert found.actionable[0].check == "single-instance-serialization"
    (spot,) = [one for one in found.blind_spots if one.what.startswith("1 entry of")]
    assert "not a Prometheus metric" in spot.why


SERIES = b'{"metric":{"__name__":"nv_inference_count"},"values":[[1,"2"]]}'
BROKEN = [
    b'{"metric":{"__name__":"nv_bad"},"values":[[1,"x"]]}',
    b'{"metric":[],"values":[[1,"2"]]}',
    b'{"metric":{"__name__":"nv_bad"},"values":"no"}',
    b"7",
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_series_that_cannot_be_read_takes_no_other_of_the_answer_away(broken: bytes):
    body = b'{"status":"success","data":{"resultType":"matrix","result":[%s]}}'
    answer = parse_answer(body % b",".join([SERIES, broken, *[broken] * 30]))
    assert [list(one.values) for one in answer.series] == [[2.0]]
    assert len(answer.warnings) == 21
    assert all("cannot be read" in text for text in answer.warnings)
    with pytest.raises(MalformedBody):
        parse_answer(body % broken)


def configured(change: Callable[[bytes], bytes], model: str) -> list[Scrape]:
    return [
        replace(one, body=change(one.body)) if one.kind is BodyKind.CONFIG and one.body and one.name == model else one
        for one in scrapes_of(CAUSE)
    ]


def test_a_configuration_that_cannot_be_read_is_named_and_the_cause_is_still_found():
    found = explained(
        window_of(configured(lambda body: body.replace(b'"count": ', b'"count": "x", "_": '), "detokenizer"))
    )
    assert found.actionable[0].check == "single-instance-serialization"
    assert [one for one in found.blind_spots if one.what.endswith(": 'detokenizer'")]


def without(*keys: str) -> Callable[[bytes], bytes]:
    """Return a change: an ensemble's configuration whose steps lack these keys, or that has none."""

    def change(body: bytes) -> bytes:
        config = json.loads(body)
        steps = config["ensemble_scheduling"]["step"]
        config["ensemble_scheduling"]["step"] = [
            {key: value for key, value in step.items() if key not in keys} for step in steps if keys
        ]
        return json.dumps(config).encode()

    return change


@pytest.mark.parametrize("keys", [(), ("model_name",), ("input_map",), ("output_map",)], ids=repr)
def test_an_ensemble_without_its_steps_is_stated_to_be_incomplete(keys: Sequence[str]):
    found = explained(window_of(configured(without(*keys), "chat")))
    (spot,) = [one for one in found.blind_spots if one.what.endswith(": 'chat'")]
    assert "configuration incomplete" in spot.why


def test_refused_entries_are_named_with_the_reason_and_are_not_many():
    good = {"name": "m", "version": "1"}
    listed = read_statistics(json.dumps({"model_stats": [good, *({"name": f"a/{i}"} for i in range(1000))]}).encode())
    assert [one.name for one in listed.entries] == ["m"]
    assert len(listed.refused) == 20
    assert "slash" in listed.refused["'a/0'"]
    index = read_index(json.dumps([good, {"name": "b", "state": {}}]).encode())
    assert ([one.name for one in index.entries], list(index.refused)) == (["m"], ["'b'"])


def test_where_no_entry_can_be_read_the_body_is_none():
    with pytest.raises(MalformedBody, match="slash"):
        parse_statistics(b'{"model_stats":[{"name":"a/b"}]}')
    with pytest.raises(MalformedBody, match="no name"):
        parse_index(b'[{"name":""}]')


@pytest.mark.parametrize("name", ["tensorrt_llm", "résumé", "a b", "模型", "a%b", "...", "x" * 255])
def test_names_of_real_folders_are_names(name: str):
    assert not why_no_name(name)
    (entry,) = parse_index(json.dumps([{"name": name}]).encode())
    assert entry.name == name


def test_whole_characters_that_were_written_as_halves_stay_what_they_are():
    (entry,) = parse_index(b'[{"name":"\\ud83d\\ude00"}]')
    assert entry.name == "\N{GRINNING FACE}"


NO_UTF8 = b"caf\xe9\xff"


def test_a_byte_that_is_no_character_takes_no_other_model_of_the_statistics_away():
    found = explained(window_of(altered(lambda body: beside(body, "@").replace(b'"@"', b'"%s"' % NO_UTF8))))
    assert found.actionable[0].check == "single-instance-serialization"
    (spot,) = [one for one in found.blind_spots if one.what.startswith("1 entry of")]
    assert "caf" in spot.what


@pytest.mark.parametrize(
    ("kind", "body", "left"),
    [
        (BodyKind.INDEX, b'[{"name":"m"},{"name":"@"}]', {"'m'"}),
        (BodyKind.CONFIG, b'{"name":"m","parameters":{"note":{"string_value":"@"}}}', {"m"}),
        (BodyKind.SERVER, b'{"name":"@","version":"2.51.0"}', {"2.51.0"}),
        (BodyKind.NVML, b'{"gpus":[{"index":0,"uuid":"GPU-1","name":"@"}]}', {"GPU-1"}),
        (BodyKind.CLIENT, b'{"t":1,"ms":2,"model":"m"}\n{"t":1,"ms":2,"model":"@"}\n', {"'m'"}),
        (BodyKind.LOG, b'I1127 10:00:00.000000 1 x.cc:1] "@"\n', {"log"}),
        (BodyKind.METRICS, b'[{"iter":1,"note":"@"}]', {"iter"}),
    ],
    ids=lambda one: str(one) if isinstance(one, BodyKind) else "",
)
def test_a_byte_that_is_no_character_costs_no_more_than_its_entry(kind: BodyKind, body: bytes, left: set[str]):
    scrape = Scrape(server="s", kind=kind, at=1.0, mono=1.0, body=body.replace(b"@", NO_UTF8), name="m")
    read = ScrapeParser().parse(scrape)
    assert not read.error
    assert all(one.strip("'") in repr(read) for one in left)
    kept = redact(scrape)
    assert kept.body is not None
    assert not kept.error


def test_a_byte_that_is_no_character_costs_no_other_span_and_no_other_series():
    span = b'{"traceId":"%s","spanId":"%s","name":"@","startTimeUnixNano":"1","endTimeUnixNano":"2"}'
    spans = b",".join(span % (b"a" * 32, b"%016x" % at) for at in (1, 2))
    sender = b'{"attributes":[{"key":"service.name","value":{"stringValue":"@"}}]}'
    body = b'{"resourceSpans":[{"resource":%s,"scopeSpans":[{"spans":[%s]}]}]}' % (sender, spans)
    assert len(decode_spans(body.replace(b"@", NO_UTF8)).spans) == 2
    batch = decode_spans(body.replace(b"@", b"x", 2).replace(b"@", NO_UTF8))
    assert (len(batch.spans), batch.corrupt) == (1, 1)
    assert parse_values(b'{"status":"success","data":["m","%s"]}' % NO_UTF8)[0] == "m"
    page = b'{"status":"success","warnings":["%s"],"data":{"resultType":"matrix","result":[%s]}}' % (NO_UTF8, SERIES)
    assert len(parse_answer(page).series) == 1


def test_a_recorded_page_keeps_its_lines_beside_one_of_bytes_that_are_no_characters():
    page = b'nv_inference_count{model="m"} 1\nnv_inference_count{model="%s"} 1\npassword="%s" 2\n\0%s hunter2\n'
    kept = redact(Scrape(server="s", kind=BodyKind.METRICS, at=1.0, mono=1.0, body=page % ((NO_UTF8,) * 3)))
    assert kept.body is not None
    assert kept.body.startswith(b'nv_inference_count{model="m"} 1\nnv_inference_count{model="%s"} 1\n' % NO_UTF8)
    assert kept.body.endswith(b'password="[REDACTED]" 2\n\n')


def test_export_requests_on_lines_of_their_own_are_searched_for_secrets_as_one_is():
    span = '{"attributes":[{"key":"api_key","value":{"stringValue":"hunter2-Zm9v"}}]}'
    body = "\n".join(['{"resourceSpans":[{"scopeSpans":[{"spans":[' + span + "]}]}]}"] * 2).encode()
    kept = redact(Scrape(server="s", kind=BodyKind.TRACES, at=1.0, mono=1.0, body=body))
    assert kept.body is not None
    assert b"hunter2" not in kept.body
    assert kept.body.count(b"api_key") == 2


def test_a_page_of_too_many_lines_is_not_searched_for_secrets_but_left_out():
    scrape = Scrape(server="s", kind=BodyKind.METRICS, at=1.0, mono=1.0, body=b"key=1\n" * (MOST_LINES + 1))
    begun = time.process_time()
    kept = redact(scrape)
    assert time.process_time() - begun < 1
    assert kept.body is None
    assert kept.error is not None
    assert "lines" in kept.error
