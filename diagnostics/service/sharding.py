"""Which of several workers watches a deployment: each finds out for itself, and they agree without talking.

Rendezvous hashing (Thaler and Ravishankar, 1998): a worker more or less moves only the deployments that it takes or
leaves, so that the others keep their windows.
"""

from __future__ import annotations

from hashlib import blake2b

from diagnostics.settings.tree import FleetSettings


def owner(deployment: str, workers: int) -> int:
    """Return the number of the worker, from 0 on, that watches a deployment."""
    return max(range(workers), key=lambda worker: _weight(worker, deployment))


def owns(fleet: FleetSettings, deployment: str) -> bool:
    """Return whether a deployment is this worker's."""
    return owner(deployment, fleet.workers) == fleet.worker


def _weight(worker: int, deployment: str) -> bytes:
    return blake2b(f"{worker}/{deployment}".encode(), digest_size=8).digest()
