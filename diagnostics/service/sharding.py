"""Which of several workers watches a deployment: each finds out for itself, and they agree without talking.

Rendezvous hashing (Thaler and Ravishankar, 1998): a worker more or less moves only the deployments that it takes or
leaves, so that the others keep their windows.
"""

from __future__ import annotations

from hashlib import blake2b

from diagnostics.errors import UsageError
from diagnostics.settings.load import Loaded
from diagnostics.settings.tree import FleetSettings


def check_fleet(loaded: Loaded) -> None:
    """Refuse workers that would all be the first one, or that could not see each other's history.

    Raises:
        UsageError: of several workers this one's number is not said, or the history is no PostgreSQL.

    """
    settings, where = loaded.settings, loaded.where("fleet.workers")
    if settings.fleet.workers == 1:
        return
    if "worker" not in settings.fleet.model_fields_set:
        hint = "set fleet.worker, or DIAG_FLEET__WORKER, from 0 on"
        raise UsageError("of several workers each must know which one it is", where=where, hint=hint)
    if not settings.history.database.startswith("postgresql"):
        hint = "set history.database to postgresql://user@host/name"
        raise UsageError("workers share their history in a PostgreSQL, and none is named", where=where, hint=hint)


def owner(deployment: str, workers: int) -> int:
    """Return the number of the worker, from 0 on, that watches a deployment."""
    return max(range(workers), key=lambda worker: _weight(worker, deployment))


def owns(fleet: FleetSettings, deployment: str) -> bool:
    """Return whether a deployment is this worker's."""
    return owner(deployment, fleet.workers) == fleet.worker


def _weight(worker: int, deployment: str) -> bytes:
    return blake2b(f"{worker}/{deployment}".encode(), digest_size=8).digest()
