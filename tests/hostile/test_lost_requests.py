"""Requests that were merely not seen are not taken for requests that failed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from diagnostics.wire.records import BodyKind, Scrape
from tests.captures.recorded import explanation_of, labels, scrapes_of

NAME = "cpu-handed-queue-overflow"


def actionable(scrapes: list[Scrape]) -> set[str]:
    return {finding.check for finding in explanation_of(scrapes).actionable}


def without_model(scrape: Scrape, model: str) -> Scrape:
    if scrape.body is None or scrape.kind not in (BodyKind.METRICS, BodyKind.STATISTICS):
        return scrape
    if scrape.kind is BodyKind.METRICS:
        label = f'model="{model}"'.encode()
        return replace(scrape, body=b"\n".join(line for line in scrape.body.split(b"\n") if label not in line))
    answer = json.loads(scrape.body)
    rows = [row for row in answer["model_stats"] if row["name"] != model]
    return replace(scrape, body=json.dumps({"model_stats": rows}).encode())


def test_a_queue_whose_limit_could_not_be_read_is_no_failing_stage_before_it():
    without = [s for s in scrapes_of(NAME) if not (s.kind is BodyKind.CONFIG and s.name == "safety")]
    assert actionable(without) <= labels()[NAME].allowed


@pytest.mark.parametrize("model", ["embedder", "llm", "detokenizer"])
def test_a_model_that_vanishes_in_the_middle_is_no_failing_stage_before_it(model: str):
    scrapes = scrapes_of(NAME)
    times = sorted(s.at for s in scrapes if s.kind is BodyKind.METRICS)
    middle = times[len(times) // 2]
    assert actionable([without_model(s, model) if s.at > middle else s for s in scrapes]) <= labels()[NAME].allowed
