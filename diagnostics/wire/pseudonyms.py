"""Names that stand for names: the same original gives the same pseudonym in every body of a recording."""

from __future__ import annotations

import hashlib
import hmac
import re

WITHHELD = "withheld"
"""Stands for text that is not known to be harmless."""
_INSTANCE = re.compile(r"(.+?)((?:_[0-9]+){1,2})", re.ASCII)


class Pseudonyms:
    """Pseudonyms under one seed. Without the seed nobody can test a guessed name against them."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    def of(self, sort: str, name: str) -> str:
        """Return `sort-1a2b3c4d` for `name`, and the empty string for the empty name."""
        if not name:
            return ""
        message = f"{sort}\0{name}".encode("utf-8", "surrogatepass")
        return f"{sort}-{hmac.new(self._seed, message, hashlib.sha256).hexdigest()[:8]}"

    def model(self, name: str) -> str:
        """Return the pseudonym of a model."""
        return self.of("model", name)

    def instance(self, name: str) -> str:
        """Return the pseudonym of an instance (`safety_0_1`) or its group (`safety_0`), numbers kept."""
        found = _INSTANCE.fullmatch(name)
        return self.model(found[1]) + found[2] if found else self.of("group", name)
