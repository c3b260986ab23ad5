"""The month that the soak lives through, in miniature."""

from __future__ import annotations

from pathlib import Path

from tests.soak.days import KEEP_RAW_DAYS, KEEP_SIGNALS_DAYS, Day, growth, lived

SETTLED = KEEP_SIGNALS_DAYS + KEEP_RAW_DAYS


def grown(megabytes: float = 0.0, disk: int = 0, dropped: float = 0.0) -> list[Day]:
    days = range(3 * SETTLED)
    return [
        Day(megabytes=100 + day * megabytes, disk=1_000_000 + day * disk, incidents=day, dropped=dropped)
        for day in days
    ]


def test_a_day_passes_through_everything_that_remembers_and_nothing_is_lost(tmp_path: Path):
    (day,) = lived(tmp_path, 1, 3600.0)
    assert (day.incidents, day.dropped) == (1, 0)
    assert 0 < day.disk < 20e6
    assert list(tmp_path.glob("raw/*/*.tar.xz")), "recorded bodies are packed"


def test_what_grows_for_ever_is_reported():
    assert growth(grown()) == []
    assert growth(grown(megabytes=5.0)) == ["memory"]
    assert growth(grown(disk=100_000)) == ["disk"]
    assert growth(grown(dropped=1.0)) == ["dropped from queues"]
