"""Which places of a capture are taken, so that no body hides another."""

from __future__ import annotations

from hashlib import blake2b

from diagnostics.wire.capture_layout import has_own_time, place, place_later
from diagnostics.wire.records import Scrape


class Places:
    """The places that the scrapes of one capture have taken."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        # The newest body of each part without a time of its own: what was changed and put back is told twice.
        self._newest: dict[str, bytes] = {}

    def __len__(self) -> int:
        """Return how many are taken."""
        return len(self._used)

    def take(self, scrape: Scrape, body: bytes, *, later: bool = False) -> str | None:
        """Return a path not yet used, which is from now on; None for an untimed part that is the same as before.

        Args:
            scrape: what is recorded.
            body: what its file will hold.
            later: give a part without a time of its own one, even where it is the first.

        """
        digest = blake2b(body, digest_size=16).digest()
        untimed = scrape.body is not None and not has_own_time(scrape.kind)
        path, bump = place(scrape), 0
        if untimed:
            if self._newest.get(path) == digest:
                return None
            self._newest[path] = digest
            if later and path not in self._used:
                path = place_later(scrape)
        while path in self._used:
            path = place_later(scrape, bump) if untimed else place(scrape, bump + 1)
            bump += 1
        self._used.add(path)
        return path
