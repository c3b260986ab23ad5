"""A server of a thousand models takes time in proportion to them, not to their square."""

from __future__ import annotations

import time

from tests.builders import Stage, SyntheticTriton, explained, model_config


def seconds_for(models: int) -> float:
    stages = tuple(Stage(f"m{i}", rate=1, execution=0.001, config=model_config(f"m{i}")) for i in range(models))
    window = SyntheticTriton(models=stages).window(4)
    begun = time.process_time()
    explained(window)
    return time.process_time() - begun


def test_ten_times_the_models_take_about_ten_times_as_long():
    seconds_for(10)  # imports and caches
    assert seconds_for(1000) < 30 * seconds_for(100)
