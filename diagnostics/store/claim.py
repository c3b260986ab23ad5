"""One service writes to a directory and an SQLite file: two would record and delete what is the other's."""

from __future__ import annotations

import contextlib
import fcntl
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from diagnostics.errors import CollectError, reason_of

log = logging.getLogger(__name__)
_FILE = "lock"


@contextlib.contextmanager
def claimed(directory: Path, database: Path | None = None) -> Iterator[None]:
    """Hold the directory, and an SQLite file elsewhere; the system lets go of both when the process dies.

    Where no file can be written nothing is held: nothing else can be written either, which the history reports by
    itself.

    Raises:
        CollectError: another process holds one of them.

    """
    with contextlib.ExitStack() as held:
        held.enter_context(_held(directory, directory / _FILE, "history.directory") or contextlib.nullcontext())
        if database is not None:
            file = database.with_name(f"{database.name}.{_FILE}")
            held.enter_context(_held(database, file, "history.database") or contextlib.nullcontext())
        yield


def _held(what: Path, file: Path, setting: str) -> IO[bytes] | None:
    try:
        held = file.open("ab")
    except OSError as error:
        log.warning("%s cannot be claimed: %s", what, reason_of(error))
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        hint = f"give each its own: {setting}"
        raise CollectError("another diag serve keeps its history here", where=str(what), hint=hint) from None
    except OSError as error:  # some network file systems have no locks
        log.warning("%s cannot be claimed: %s", what, reason_of(error))
    return held
