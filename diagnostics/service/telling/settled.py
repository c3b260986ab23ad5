"""Posts only what is remembered: an incident that was told of, and then forgotten, would come back as another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from diagnostics.service.telling.traced import Posts

# A memory that takes longer is in trouble, and must not keep anyone from being told.
PATIENCE = 2.0
# Waits until all that was taken so far is remembered; at most so many seconds.
Settle = Callable[[float], None]


class SettledPoster:
    """A poster that waits for the memory before each post."""

    def __init__(self, poster: Posts, settle: Settle) -> None:
        self._poster, self._settle = poster, settle

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Post one message; return the status.

        Raises:
            DeliveryFailure: it was not taken.

        """
        self._settle(PATIENCE)
        return self._poster.post(body, headers)
