"""One service writes to a directory: two would record and delete in each other's files."""

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
def claimed(directory: Path) -> Iterator[None]:
    """Hold the directory; the system lets go of it when the process dies.

    Where no file can be written nothing is held: nothing else can be written either, which the history reports by
    itself.

    Raises:
        CollectError: another process holds it.

    """
    with _held(directory) or contextlib.nullcontext():
        yield


def _held(directory: Path) -> IO[bytes] | None:
    try:
        held = (directory / _FILE).open("ab")
    except OSError as error:
        log.warning("%s cannot be claimed: %s", directory, reason_of(error))
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        hint = "give each its own: history.directory"
        raise CollectError("another diag serve keeps its history here", where=str(directory), hint=hint) from None
    except OSError as error:  # some network file systems have no locks
        log.warning("%s cannot be claimed: %s", directory, reason_of(error))
    return held
