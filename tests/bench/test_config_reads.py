"""What it costs to read configurations in each round, as multiples of reading the metrics page alone, in one run.

Both sides of a read are in this process: the fake server's part is in each of the times.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import pytest

from diagnostics.wire.records import BodyKind
from exporters.sources.triton import discover
from exporters.sources.triton_server import FEWEST_CONFIGS
from tests.bench.conftest import Goals
from tests.builders import Stage, SyntheticTriton, model_config
from tests.collect.fake_triton import Answer, fake_triton, page

ROUNDS = 40
# Each is a request of its own, and so is the page. Of many models, statistics tell which executed and are asked first.
MOST = 4.0


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _routes(models: int) -> dict[str, Answer]:
    """Return the answers of both ports of a server with so many models."""
    stages = tuple(Stage(f"m{at}", rate=5, execution=0.01, config=model_config(f"m{at}")) for at in range(models))
    bodies = {(one.kind, one.name): one.body or b"" for one in SyntheticTriton(models=stages).scrapes(1)}
    index = json.dumps([{"name": stage.name, "version": "1", "state": "READY"} for stage in stages]).encode()
    configs = {f"GET /v2/models/{name}/config": page(body) for (kind, name), body in bodies.items() if name}
    return {
        "GET /v2/models/stats": page(bodies[BodyKind.STATISTICS, ""], "application/json"),
        "POST /v2/repository/index": page(index, "application/json"),
        "GET /metrics": page(bodies[BodyKind.METRICS, ""]),
        **configs,
    }


@pytest.mark.parametrize("models", [5, 200])
def test_a_configuration_that_is_read_in_each_round_costs_few_metrics_pages(models: int, goals: Goals) -> None:
    with fake_triton() as fake:
        assert fake.api
        assert fake.metrics
        fake.api.routes |= _routes(models)
        fake.metrics.routes = fake.api.routes
        server = discover(f"127.0.0.1:{fake.port}")
        assert server.metrics
        server.round()  # describes every model once
        asked = len(fake.api.seen)
        alone, without, whole = list[float](), list[float](), list[float]()
        for _ in range(ROUNDS):
            alone.append(_seconds(server.metrics.read))
            without.append(_seconds(server.scrape))
            whole.append(_seconds(server.round))
        configs = sum(path.endswith("/config") for path, _ in fake.api.seen[asked:]) / ROUNDS
        server.close()
    metrics, round_, all_ = (statistics.median(times) for times in (alone, without, whole))
    ratio = (all_ - round_) / metrics
    print(
        f"\n{models} models: page {metrics * 1e3:.1f} ms, with statistics and index {round_ / metrics:.1f}×, "
        f"{configs:.0f} configurations {ratio:.1f}× more"
    )
    assert configs == min(models, FEWEST_CONFIGS)
    goals.at_most(f"{models} models, a configuration read in each round, metrics pages", ratio / configs, MOST)
