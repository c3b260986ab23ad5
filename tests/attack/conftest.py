"""Attacks as an expert would make them, with ceilings of time and memory: `make attack`.

A test is marked `attack` where it takes long; what is not marked is the short part, which is of `make test`. What runs
a service is marked `live` besides. What is attacked is on the loopback, and ends by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.measuring import Attacked, attacked


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Attacked]:
    """A service of the test's own, so that its peak of memory is the test's."""
    with attacked(tmp_path) as one:
        yield one
