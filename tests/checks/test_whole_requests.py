"""Requests of several items: an execution takes them whole, and a window ends as soon as a batch of them is full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.evidence.capacity import stage_load
from diagnostics.evidence.ledger import Ledger
from diagnostics.tuning.queueing import predict
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, chain, model_config, on

ONE = ({"kind": "KIND_CPU", "count": 1},)


def of_eight(rate: float, execution: float = 0.026, growth: float = 0.0) -> SyntheticTriton:
    """Return a server without a batcher whose clients send eight items at a time, `growth` a second too many."""
    config = model_config("m", groups=ONE, max_batch=8)
    stage = Stage("m", rate=rate, client_batch=8, batches={8: 1.0}, execution=execution, queue=0.5, config=config)
    return SyntheticTriton(models=(replace(stage, pending_growth=growth),))


def test_a_stage_whose_clients_batch_keeps_up_with_one_request_per_execution() -> None:
    evidence = of_eight(36).evidence()
    forecast = predict(stage_load(Ledger(evidence, lambda _: None), on("m")))

    assert forecast.batch_size_mean == 8
    assert forecast.capacity_per_second == pytest.approx(8 / 0.02615, rel=0.001)
    assert forecast.busy_share == pytest.approx(36 * 0.02615, rel=0.001)


@pytest.mark.parametrize("closed", [(), (BodyKind.STATISTICS,), (BodyKind.METRICS,)])
def test_requests_of_many_items_that_wait_for_one_instance_do_not_exceed_the_device(
    closed: tuple[BodyKind, ...],
) -> None:
    (finding,) = of_eight(36).without(*closed).explain().actionable

    assert finding.check == "single-instance-serialization"


def test_what_a_device_can_serve_is_stated_in_requests_not_in_their_items() -> None:
    (finding,) = of_eight(4.9, execution=0.2, growth=32.1).explain().actionable

    assert finding.check == "capacity-exceeded"
    assert "is offered 37/s" in finding.summary


@pytest.mark.parametrize(("preferred", "found"), [([], True), ([2], False)])
def test_a_window_is_no_shorter_wait_because_batches_fill_before_its_end(preferred: list[int], found: bool) -> None:
    batching = {"max_queue_delay_microseconds": 400_000, "preferred_batch_size": preferred}
    config = model_config("embed", max_batch=16, batching=batching)
    embed = Stage("embed", rate=60, batches={16: 1.0}, execution=0.02, queue=0.125, config=config)
    safety = Stage("safety", rate=60, execution=0.002, config=model_config("safety"))
    search = Stage("search", rate=60, execution=0.022, overhead=0.125, config=chain("search", "embed", "safety"))
    actionable = SyntheticTriton(models=(search, embed, safety)).explain().actionable

    # Sixteen at 60/s take 250 ms to come, two of them 17 ms: what waits longer than that does not wait for a batch.
    assert any(finding.check == "batch-window-mistuned" for finding in actionable) == found
