from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn.server

from tests.soak.forking import Forks, forks


@pytest.fixture(scope="session", autouse=True)
def _ending_soon() -> Iterator[None]:
    """Servers look ten times as often whether they are to end: each test that opens a door waits for one to."""

    async def sleep(seconds: float, *more: Any) -> Any:
        return await asyncio.sleep(seconds / 10, *more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(uvicorn.server, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
        yield


@pytest.fixture(scope="session")
def program() -> Iterator[Forks]:
    """What services are forked from, each as a process of its own."""
    with forks() as made:
        yield made
