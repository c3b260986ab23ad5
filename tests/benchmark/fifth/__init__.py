"""Incidents of a fifth table of kinds, drawn, recorded and labelled as those of `again`."""

from __future__ import annotations

from tests.benchmark.again import OddDrawn, drawn_of, kinds_of
from tests.benchmark.fifth import faults, lookalikes

FAULTS = kinds_of(faults)
LOOKALIKES = kinds_of(lookalikes)
# The clients' own process, and the way that answers take: the server counts nothing of either.
_CLIENTS_ONLY = frozenset({"clients_freeze", "pipe_gets_thin"})
_LESS = ("no-statistics", "metrics-15s", "late", "all-15s", "metrics-and-clients", "hole")


def drawn_all() -> tuple[OddDrawn, ...]:
    """Return every incident, in an order that says nothing."""
    return drawn_of({**FAULTS, **LOOKALIKES}, "fifth 27", 127, _CLIENTS_ONLY, _LESS)
