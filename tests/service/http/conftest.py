from __future__ import annotations

from collections.abc import Iterator

import pytest

from diagnostics.service.http import live


@pytest.fixture(scope="session", autouse=True)
def _reported_soon() -> Iterator[None]:
    """Tests do not wait a second for every change to be told."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(live, "PAUSE", 0.02)
        yield
