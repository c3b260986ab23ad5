"""How long a capture takes to explain, against merely decompressing it and parsing its JSON, both in this one run."""

from __future__ import annotations

import json
import statistics
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from tests.bench.conftest import Goals
from tests.builders import explained

FOLDER = Path(__file__).parents[2] / "fixtures/captures"
CAPTURES = ("cpu-handed-single-instance", "cpu-handed-host-cpu-starved", "gpu-handed-single-instance")
ROUNDS = 7
RATIO = 4.0


def _merely_read(path: Path) -> int:
    """Decompress everything and parse what is JSON; return the number of bodies."""
    bodies = 0
    with tarfile.open(path, "r:xz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is None:
                continue
            body, bodies = content.read(), bodies + 1
            if member.name.endswith(".json"):
                json.loads(body)
            elif member.name.endswith(".jsonl"):
                for line in body.splitlines():
                    json.loads(line)
    return bodies


def _explained(path: Path) -> Explanation:
    window = window_of(open_capture(path).scrapes())
    return explained(window)


def _seconds(work: Callable[[Path], object], path: Path) -> float:
    # Of the processor, not of the wall clock: the machine is shared, and neither work waits for anything.
    start = time.process_time()
    work(path)
    return time.process_time() - start


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_is_explained_within_four_times_of_reading_it(name: str, goals: Goals) -> None:
    path = FOLDER / f"{name}.tar.xz"
    assert _explained(path).anatomy  # the first run also imports and finds the checks
    assert _merely_read(path) > 50
    ours, reference = [], []
    for _ in range(ROUNDS):
        reference.append(_seconds(_merely_read, path))
        ours.append(_seconds(_explained, path))

    ratio = statistics.median(ours) / statistics.median(reference)
    print(f"\n{name}: {statistics.median(ours) * 1e3:.0f} ms, {ratio:.1f}× reading it")
    goals.at_most(f"explaining {name}, times reading it", ratio, RATIO)
