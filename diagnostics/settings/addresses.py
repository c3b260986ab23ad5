"""Addresses as they may be shown: without what may be a secret."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/+")
_AUTHORITY_ENDS = re.compile(r"[/?#]")
_BEHIND = re.compile(r"[?#]")
_URL = re.compile(r"(?<=://)[^\s\"'<>]+")
REDACTED = "[REDACTED]"
"""What stands for a secret, wherever one was."""


def shown(address: str) -> str:
    """Return an address without user, password, query and fragment.

    Everything before the last `@` is taken for a password, with or without a scheme.
    """
    scheme = _SCHEME.match(address)
    start = scheme.end() if scheme else 0
    _, at, place = address[start:].rpartition("@")
    place, *behind = _BEHIND.split(place, maxsplit=1)
    return f"{address[:start]}{f'{REDACTED}@' if at else ''}{place}{f'?{REDACTED}' if behind else ''}"


def without_credentials(text: str) -> str:
    """Return a text without the users and passwords of the URLs that it holds.

    To the last `@` before a blank: passwords hold / and # and @ where nobody encoded them.
    """
    return _URL.sub(lambda found: _hidden(found[0]), text)


def _hidden(behind_scheme: str) -> str:
    _, at, place = behind_scheme.rpartition("@")
    return f"{REDACTED}@{place}" if at else behind_scheme


def names_a_user(address: str) -> bool:
    """Return whether an address names a user before its host, with or without a scheme."""
    scheme = _SCHEME.match(address)
    return "@" in _AUTHORITY_ENDS.split(address[scheme.end() if scheme else 0 :], maxsplit=1)[0]
