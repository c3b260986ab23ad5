from __future__ import annotations

import pytest

from exporters.sources.schedule import SteadyWallClock


class Clocks:
    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000.0, 50.0

    def made(self) -> SteadyWallClock:
        return SteadyWallClock(lambda: self.wall, lambda: self.steady)


def test_times_go_on_evenly_when_the_clock_is_set_back():
    clocks = Clocks()
    clock = clocks.made()
    clocks.steady += 10.0
    clocks.wall += 10.0 - 3600.0
    assert clock.now() == pytest.approx(1_000_010.0)
    assert clock.stepped() == pytest.approx(-3600.0)


def test_a_clock_that_is_only_slewed_is_not_stated_to_have_been_set():
    clocks = Clocks()
    clock = clocks.made()
    clocks.steady += 60.0
    clocks.wall += 60.03
    assert clock.stepped() == 0.0
