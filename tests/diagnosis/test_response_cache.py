"""A response cache that is asked for each request and answers none: a stamp in the input makes each one new."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import Stage, SyntheticTriton, explained, model_config

Told = Callable[[float, float], Explanation]
RATE, BEFORE, EVERY = 20, 100.0, 5.0
STAGE = Stage("m", rate=RATE, execution=0.02, overhead=0.012, config=model_config("m"))


def counts(number: int, hits: float) -> tuple[float, float]:
    """Return (hits, misses) at a read, of which so large a part are hits."""
    asked = RATE * (BEFORE + EVERY * number)
    return round(hits * asked), round((1 - hits) * asked)


def page(hits: float, miss: float) -> SyntheticTriton:
    def lines(number: int) -> list[str]:
        found, missed = counts(number, hits)
        labels = '{model="m",version="1"}'
        return [
            f"nv_cache_num_hits_per_model{labels} {found}",
            f"nv_cache_num_misses_per_model{labels} {missed}",
            f"nv_cache_miss_duration_per_model{labels} {missed * miss * 1e6:.0f}",
        ]

    return SyntheticTriton(models=(STAGE,), before=BEFORE, interval=EVERY, extra_metrics=lines)


def in_statistics(scrapes: list[Scrape], hits: float, miss: float) -> list[Scrape]:
    """Return the scrapes with the cache's counters in each answer of the statistics extension."""
    found, number = [], 0
    for one in scrapes:
        if one.kind is BodyKind.STATISTICS:
            asked, missed = counts(number, hits)
            body = json.loads(one.body or b"")
            stats = body["model_stats"][0]["inference_stats"]
            stats["cache_hit"] = {"count": asked, "ns": 0}
            stats["cache_miss"] = {"count": missed, "ns": round(missed * miss * 1e9)}
            one, number = replace(one, body=json.dumps(body).encode()), number + 1
        found.append(one)
    return found


def by_page(hits: float, miss: float) -> Explanation:
    return page(hits, miss).without(BodyKind.STATISTICS).explain()


def by_statistics(hits: float, miss: float) -> Explanation:
    plain = SyntheticTriton(models=(STAGE,), before=BEFORE, interval=EVERY)
    return explained(window_of(in_statistics(plain.scrapes(), hits, miss)))


@pytest.mark.parametrize("explain", [by_page, by_statistics])
def test_a_cache_that_never_answers_and_takes_long_is_told(explain: Told) -> None:
    found = explain(0.0, 0.012)

    assert found.verdict is Verdict.NO_CLEAR_CAUSE
    assert "response cache of m answered none of" in found.reason
    assert "12 ms" in found.reason
    assert "inputs" in found.next_measurement


@pytest.mark.parametrize(("hits", "miss"), [(0.1, 0.012), (0.0, 0.004)], ids=["answers some", "takes little"])
@pytest.mark.parametrize("explain", [by_page, by_statistics])
def test_a_cache_that_answers_or_costs_little_is_not(explain: Told, hits: float, miss: float) -> None:
    assert "response cache" not in explain(hits, miss).reason
