from __future__ import annotations

import jsonschema

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.render.explanation.json import report, schema
from tests.render.schemas import closed
from tests.render.situations import as_json, situations


def test_every_report_meets_the_schema(situation: Explanation) -> None:
    jsonschema.validate(as_json(report(situation)), closed(schema()))


def test_an_interval_without_an_end_is_null() -> None:
    line = report(situations()["infinite ends"])["findings"][0]["evidence"][-1]

    assert (line["low"], line["high"], line["value"]) == (0.1, None, 0.2)


def test_a_missing_value_is_null_with_its_reason() -> None:
    line = report(situations()["missing value"])["findings"][0]["evidence"][-1]

    assert (line["value"], line["missing"], line["supports"]) == (None, "too_few_events", None)


def test_names_travel_unaltered() -> None:
    found = as_json(report(situations()["hostile control"]))

    assert found["findings"][0]["subject"]["model"] == "bell\x07escape\x1b[31mred\x00\ttab"  # type: ignore[index]
