"""The words in which every source says why a read failed, so that a recording can be judged as the live read was."""

from __future__ import annotations

import re

REFUSED = "connection refused"
# Characters that are kept of a reason: one line of an error text.
LONGEST_REASON = 200
CLOSED_EARLY = frozenset({"the connection was closed before an answer", "the connection was closed without an answer"})
_LATE = re.compile(r"no (?:complete )?answer within [0-9.]{1,12} s", re.ASCII)
_STATUS = re.compile(r"HTTP [0-9]{3}\b", re.ASCII)
# Nothing of them is a server's or a user's own text.
_PLAIN = frozenset({"host name not found", "no route to host", "network is unreachable", "the answer was cut off"})


def refused(reason: str) -> bool:
    """Return whether nothing listened on the port."""
    return reason == REFUSED


def unanswered(reason: str) -> bool:
    """Return whether nobody answered: the port is closed, or whoever listens there hangs up or takes too long."""
    return refused(reason) or reason in CLOSED_EARLY or _LATE.fullmatch(reason) is not None


def public(reason: str) -> str | None:
    """Return what of a reason may be shown to strangers: our own words; None where there are none."""
    if reason in _PLAIN or unanswered(reason):
        return reason
    status = _STATUS.match(reason)
    return status[0] if status else None
