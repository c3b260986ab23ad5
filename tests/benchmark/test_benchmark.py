from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tests.benchmark.deployment import write
from tests.benchmark.draws import draw, draw_gpu
from tests.benchmark.draws.base import Drawn
from tests.benchmark.record import helped_most
from tests.benchmark.replayed import LABELS, scored


@pytest.mark.parametrize("name", LABELS)
def test_a_drawn_incident_gets_its_cause_or_none_and_a_healthy_one_no_alarm(name: str) -> None:
    found = scored(name)

    assert found.result in ("hit", "silent", "abstained", "missed"), found


def test_most_drawn_causes_are_found() -> None:
    faults = [name for name, label in LABELS.items() if label["cause"] != "healthy"]
    hits = [name for name in faults if scored(name).result == "hit"]

    assert len(hits) >= 0.9 * len(faults)


@pytest.mark.parametrize("drawn", [draw(seed) for seed in range(60)] + [draw_gpu(seed) for seed in range(12)])
def test_a_drawn_repository_is_one_that_triton_reads(drawn: Drawn, tmp_path: Path) -> None:
    repository = write(drawn.deployment, tmp_path / "repository")

    for path in repository.glob("*/config.pbtxt"):
        config = text_format.Parse(path.read_text("utf-8"), model_config_pb2.ModelConfig())
        assert config.name == path.parent.name


def test_a_seed_always_draws_the_same() -> None:
    assert draw(17) == draw(17)
    assert draw(17) != draw(18)


def test_every_third_seed_draws_a_healthy_deployment() -> None:
    assert [not draw(seed).causes for seed in range(30)] == [seed % 3 == 0 for seed in range(30)]


def test_the_label_holds_each_change_that_helped_about_as_much_as_the_best() -> None:
    assert helped_most(100.0, {"a": 20.0, "b": 26.0, "c": 90.0}) == ["a", "b"]
