"""What a daemon is made of."""

from __future__ import annotations

from typing import Protocol


class Component(Protocol):
    """Something beside the service started before it, and stopped after it: the history, a listener, a sender."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
