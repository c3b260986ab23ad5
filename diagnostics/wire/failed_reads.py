"""The words in which every source says why a read failed, so that a recording can be judged as the live read was."""

from __future__ import annotations

import re

from diagnostics.wire.json_body import number

REFUSED = "connection refused"
# Characters that are kept of a reason: one line of an error text.
LONGEST_REASON = 200
CLOSED_EARLY = frozenset({"the connection was closed before an answer", "the connection was closed without an answer"})
_LATE = re.compile(r"no (?:complete )?answer within ([0-9.]{1,12}) s", re.ASCII)
# Readers, and proxies on their way, wait no longer than a minute for an answer.
_LONGEST_READ = 60.0
_STATUS = re.compile(r"HTTP [0-9]{3}\b", re.ASCII)
# What a proxy answers at once; for 504 it waited.
_AT_ONCE = re.compile(r"HTTP (?!504)[0-9]{3}\b", re.ASCII)
# Nothing of them is a server's or a user's own text.
_PLAIN = frozenset({"host name not found", "no route to host", "network is unreachable", "the answer was cut off"})


def refused(reason: str) -> bool:
    """Return whether nothing listened on the port."""
    return reason == REFUSED


def unanswered(reason: str) -> bool:
    """Return whether nobody answered: the port is closed, or whoever listens there hangs up or takes too long."""
    return refused(reason) or reason in CLOSED_EARLY or _LATE.fullmatch(reason) is not None


def longest_wait(reason: str) -> float:
    """Return for how many seconds a read that failed for this reason can have waited at most.

    A closed port refuses at once, and so does a proxy that finds nothing behind it. A read that came too late waited
    for as long as it says. Of all others nobody knows: it may have been a minute.
    """
    late = _LATE.fullmatch(reason)
    if late is not None:
        return min(number(late[1]) or 0.0, _LONGEST_READ)
    return 0.0 if refused(reason) or _AT_ONCE.match(reason) else _LONGEST_READ


def public(reason: str) -> str | None:
    """Return what of a reason may be shown to strangers: our own words; None where there are none."""
    if reason in _PLAIN or unanswered(reason):
        return reason
    status = _STATUS.match(reason)
    return status[0] if status else None
