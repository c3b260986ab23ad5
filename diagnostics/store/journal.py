"""What people did and entered, and the deploys that it saw: who, from where, what, and about which time."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from sqlalchemy import Connection, delete, func, select

from diagnostics.store.statements import Apply, upsert
from diagnostics.store.tables import clean, journal

MOST_ENTRIES = 10_000
# Of what the service saw, which must not push out what people wrote.
MOST_OBSERVED = 2_000


class JournalAction(StrEnum):
    """What was done; `OBSERVED` is what the service saw by itself."""

    ACKNOWLEDGE = "acknowledge"
    MAINTENANCE = "maintenance"
    EVENT = "event"
    SILENCE = "silence"
    OBSERVED = "observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One write. Times are Unix seconds.

    Attributes:
        action: what was done.
        at: when it was done.
        who: the user; what a client without credentials calls itself; `diag` of what the service saw.
        origin: the address that it came from; the server of what the service saw.
        deployment: what it is about; empty for all.
        incident: id of the incident that was acknowledged or silenced; empty otherwise.
        start: when what it describes begins, or happened.
        end: when a maintenance or a silence ends; None otherwise.
        kind: of an event, as `deploy`; empty otherwise.
        text: why, or what happened.
        id: unique.

    """

    action: JournalAction
    at: float
    who: str
    origin: str
    deployment: str
    incident: str = ""
    start: float
    end: float | None = None
    kind: str = ""
    text: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


def put_entry(entry: JournalEntry) -> Apply:
    """Write an entry."""
    row = clean({**asdict(entry), "action": entry.action.value})
    return lambda connection: upsert(connection, journal, [row])


def forget_journal(before: float) -> Apply:
    """Delete what is older than Unix second `before` and describes no time since."""

    def apply(connection: Connection) -> None:
        connection.execute(delete(journal).where(journal.c.at < before, func.coalesce(journal.c.end, 0.0) < before))

    return apply


def read_journal(connection: Connection) -> Sequence[JournalEntry]:
    """Return the newest entries of people, events apart, and of what was seen, in time order."""
    seen, event = JournalAction.OBSERVED.value, JournalAction.EVENT.value
    of = journal.c.action
    found = []
    for wanted, most in (
        (of.not_in((seen, event)), MOST_ENTRIES),
        (of == event, MOST_ENTRIES),
        (of == seen, MOST_OBSERVED),
    ):
        rows = connection.execute(select(journal).where(wanted).order_by(journal.c.at.desc()).limit(most)).mappings()
        found += [JournalEntry(**{**row, "action": JournalAction(row["action"])}) for row in rows]
    return sorted(found, key=lambda one: one.at)
