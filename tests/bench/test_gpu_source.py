"""What sampling the GPUs at 1 Hz costs this machine's processors: `python -m tests.bench.test_gpu_source [CARDS]`.

Processor time of the whole process, of all its threads, user and system, over wall time.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import pytest

from exporters.sources.nvml import NvmlSampler
from tests.bench.conftest import Goals

INTERVAL = 1.0
# Long enough that each of the dear queries but energy comes several times.
SAMPLES = 60
MOST_PERCENT = 1.0
CARDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    cards: int
    per_sample: float

    @property
    def percent_per_card(self) -> float:
        return 100.0 * self.per_sample / INTERVAL / self.cards

    def __str__(self) -> str:
        each = self.percent_per_card
        return (
            f"{self.cards} card(s): {1e3 * self.per_sample:.2f} ms of processor time a sample, {each:.3f} % of a core "
            f"per card, {CARDS * each:.2f} % per {CARDS} cards"
        )


def measure(sampler: NvmlSampler, cards: int, samples: int) -> Cost:
    """Return what so many samples took, one each second."""
    begun, due = time.process_time(), time.monotonic()
    for _ in range(samples):
        sampler.sample()
        due += INTERVAL
        time.sleep(max(0.0, due - time.monotonic()))
    return Cost(cards=cards, per_sample=(time.process_time() - begun) / samples)


def _opened(most: int | None = None) -> tuple[NvmlSampler, int] | None:
    sampler = NvmlSampler.open()
    if sampler is None or not sampler.cards:
        return None
    if most is not None:
        sampler.only(most)
    sampler.sample()  # opens the cards
    return sampler, sampler.cards


def test_a_second_by_second_look_at_eight_gpus_takes_less_than_a_hundredth_of_a_core(goals: Goals) -> None:
    opened = _opened()
    if opened is None:
        pytest.skip("no NVIDIA driver with a GPU, or the extra `gpu` is not installed")
    sampler, cards = opened
    cost = measure(sampler, cards, SAMPLES)
    print(cost)
    sampler.close()
    goals.at_most("eight GPUs each second, % of a core", CARDS * cost.percent_per_card, MOST_PERCENT)


def main() -> int:
    """Print the cost, of all cards or of the first so many."""
    opened = _opened(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    if opened is None:
        print("no NVIDIA driver with a GPU, or the extra `gpu` is not installed")
        return 1
    sampler, cards = opened
    print(measure(sampler, cards, SAMPLES))
    sampler.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
