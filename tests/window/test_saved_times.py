"""Which time a saved file's name holds."""

from __future__ import annotations

import pytest

from diagnostics.window.saved import named_time


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("metrics-1795814441.txt", 1795814441.0),
        ("1795814441538.prom", 1795814441.538),
        ("metrics-2026-11-27T21:20:41Z.txt", 1795814441.0),
        ("metrics_2026-11-27_21-20-41.txt", 1795814441.0),
        ("20261127212041.prom", 1795814441.0),
        ("metrics-1.txt", None),
        ("stats.json", None),
        ("2026-11-27.txt", None),
        ("metrics-2026-13-27T21:20:41.txt", None),
        ("build-99999999999999.txt", None),
    ],
)
def test_a_name_may_hold_a_time(name: str, seconds: float | None) -> None:
    assert named_time(name) == seconds
