from __future__ import annotations

import pytest

from diagnostics.diagnosis.explanation import Explanation
from tests.render.situations import situations


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that asks for `situation` in all of them."""
    if "situation" in metafunc.fixturenames:
        metafunc.parametrize("situation", [pytest.param(one, id=name) for name, one in situations().items()])


@pytest.fixture
def degraded() -> Explanation:
    return situations()["degraded"]
