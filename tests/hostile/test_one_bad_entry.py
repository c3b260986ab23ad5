"""One model, sender or server with absurd names or numbers is refused, named and counted; all else is judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.render.explanation.json import report
from diagnostics.window.window import window_of
from diagnostics.wire.prometheus_answer import parse_answer
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.server import parse_index, parse_statistics, read_index, read_statistics, why_no_name
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
