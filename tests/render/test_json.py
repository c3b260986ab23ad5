from __future__ import annotations

import jsonschema
import pytest

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.render.explanation.json import report, schema
from tests.builders import Stage, SyntheticTriton, model_config
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


def test_the_percentile_of_the_first_line_is_a_number_whatever_measured_it() -> None:
    def page(read: int) -> list[str]:
        family, labels = "nv_inference_request_summary_us", 'model="m",version="1"'
        return [f'{family}{{{labels},quantile="0.95"}} 4e5', f"{family}_count{{{labels}}} {1000 + 200 * read}"]

    stage = Stage("m", rate=20, execution=0.03, queue=0.2, config=model_config("m"))
    plain, summed = SyntheticTriton(models=(stage,)), SyntheticTriton(models=(stage,), extra_metrics=page)

    assert report(plain.explain())["anatomy"][0]["latency_p95"] is None
    (entry,) = report(summed.explain())["anatomy"]
    assert entry["p95_seconds"] is None
    assert entry["latency_p95"] == {"seconds": pytest.approx(0.4), "source": "metrics", "over_seconds": None}


def test_names_travel_unaltered() -> None:
    found = as_json(report(situations()["hostile control"]))

    assert found["findings"][0]["subject"]["model"] == "bell\x07escape\x1b[31mred\x00\ttab"  # type: ignore[index]
