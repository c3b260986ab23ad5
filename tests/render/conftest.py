from __future__ import annotations

import pytest

from diagnostics.diagnosis.explanation import Explanation
from tests.render.situations import NAMES, situations


@pytest.fixture(params=NAMES)
def situation(request: pytest.FixtureRequest) -> Explanation:
    """Run every test that asks for it in all situations."""
    return situations()[request.param]


@pytest.fixture
def degraded() -> Explanation:
    return situations()["degraded"]
