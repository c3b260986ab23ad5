"""What linting costs: per model as a multiple of protobuf's own parser on the same texts, and as repositories grow."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from diagnostics.lint.run import lint
from tests.bench.conftest import Goals

SOURCE = Path(__file__).parents[2] / "fixtures/reference/model_repository/safety/config.pbtxt"
MODELS = 150
ROUNDS = 3
# protobuf's parser takes 0.8 ms for such a file on a core of a server; 200 models per second leave 5 ms for each.
MOST_TIMES_THE_PARSER = 6.0
# Twice the models: twice the time, and what else the machine does meanwhile.
MOST_GROWTH = 3.0


def _seconds(run: Callable[[], object]) -> float:
    """Return the processor time of the quickest of some runs, without what collecting other tests' garbage takes."""
    times = []
    for _ in range(ROUNDS):
        gc.collect()
        gc.freeze()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
        gc.unfreeze()
    return min(times)


def _repository(folder: Path, models: int) -> Path:
    text = SOURCE.read_text("utf-8")
    for number in range(models):
        version = folder / f"safety{number}" / "1"
        version.mkdir(parents=True)
        (version / "model.py").touch()
        (version.parent / "config.pbtxt").write_text(text.replace('"safety"', f'"safety{number}"'))
    return folder


def _parsed(repository: Path) -> int:
    texts = [path.read_text("utf-8") for path in repository.glob("*/config.pbtxt")]
    return len([text_format.Parse(text, model_config_pb2.ModelConfig()) for text in texts])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return _repository(tmp_path / "models", MODELS)


def test_all_rules_cost_a_few_times_what_parsing_alone_costs(repository: Path, goals: Goals) -> None:
    assert lint([repository]).models == _parsed(repository) == MODELS

    ratio = _seconds(lambda: lint([repository])) / _seconds(lambda: _parsed(repository))
    goals.at_most("all lint rules, times parsing", ratio, MOST_TIMES_THE_PARSER)


def test_twice_the_models_take_twice_the_time(repository: Path, tmp_path: Path, goals: Goals) -> None:
    twice = _repository(tmp_path / "twice", 2 * MODELS)

    ratio = _seconds(lambda: lint([twice])) / _seconds(lambda: lint([repository]))
    goals.at_most("lint of twice the models, times as long", ratio, MOST_GROWTH)
