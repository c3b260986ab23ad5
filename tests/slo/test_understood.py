"""Which queries of an objective are ours in other words, and which are only asked of a store."""

from __future__ import annotations

import pytest

from diagnostics.slo.promql import threshold, understood, with_window
from diagnostics.slo.slo import Promise, Promql, Triton

GOOD = 'sum(rate(nv_inference_request_success{model="chat"}[$window]))'
BAD = 'sum(rate(nv_inference_request_failure{model="chat"}[$window]))'


@pytest.mark.parametrize(
    "total",
    [
        f"{GOOD} + {BAD}",
        f"(({BAD}) + ({GOOD}))",
        GOOD.replace("sum(", "sum by (model) (") + "+" + BAD.replace("rate", "increase"),
        f"{GOOD} + {BAD}".replace('{model="chat"}', "{ model = 'chat' , }"),
    ],
)
def test_what_is_added_up_is_understood_however_it_is_written(total: str) -> None:
    assert understood(Promql(good=GOOD, total=total)) == Triton(promise=Promise.AVAILABILITY, model="chat")


@pytest.mark.parametrize(
    "total",
    [
        f"{GOOD} - {BAD}",
        f"{GOOD} + on(model) {BAD}",
        f"{GOOD} + {BAD}".replace("[$window]", "[$window] offset 1d"),
        f"{GOOD} + {BAD}".replace('model="chat"', 'model=~"chat"'),
        f"{GOOD} + {BAD}".replace("sum", "max"),
        f"2 * {GOOD} + {BAD}",
        GOOD,
        "no promql (",
    ],
)
def test_what_asks_for_anything_else_stays_a_query(total: str) -> None:
    queries = Promql(good=GOOD, total=total)
    assert understood(queries) is queries


def test_a_bare_counter_gets_a_window_unless_it_reads_another_time() -> None:
    assert with_window("requests{a='b'}", counter=True) == "sum(increase(requests{a='b'}[$window]))"
    assert with_window("requests offset 1d", counter=True) is None
    assert with_window("requests + 1", counter=True) is None


def test_a_time_of_triton_below_a_value_is_a_promise() -> None:
    asked = Triton(promise=Promise.LATENCY, model="chat", seconds=0.5)
    assert threshold('nv_inference_request_duration_us{model="chat"}', 500_000) == asked
    assert threshold('sum(rate(nv_inference_request_duration_us{model="chat"}[5m]))', 500_000) == asked
    assert threshold('max(nv_inference_request_duration_us{model="chat"})', 500_000) is None
