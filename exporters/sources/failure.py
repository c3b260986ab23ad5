"""Why a read failed: one short reason for people, and what a caller may decide by."""

from __future__ import annotations

from enum import Enum, auto


class Obstacle(Enum):
    """How far a failed read came."""

    NO_HOST = auto()  # the name is unknown or the host cannot be reached: other ports will fail the same
    CLOSED = auto()  # nothing listens on the port
    LATE = auto()  # no answer, or not all of it, in time
    PROTOCOL = auto()  # something listens, but speaks something else
    DENIED = auto()  # it wants other credentials
    ANSWER = auto()  # it answered, but not with what was asked for


class ReadFailure(Exception):
    """One read failed. Its text is one short reason without credentials; `status` is HTTP's, None without an answer."""

    def __init__(self, reason: str, obstacle: Obstacle = Obstacle.LATE, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.obstacle, self.status = reason, obstacle, status


def plain(text: str, limit: int = 200) -> str:
    """Return the first line of `text`, cut, control characters shown as `?`: servers choose these bytes."""
    line = next((line for line in text.splitlines() if line.strip()), "").strip()
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
