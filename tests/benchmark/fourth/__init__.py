"""Incidents of a fourth table of kinds, drawn, recorded and labelled as those of `again`."""

from __future__ import annotations

from tests.benchmark.again import OddDrawn, drawn_of, kinds_of
from tests.benchmark.fourth import faults, lookalikes

FAULTS = kinds_of(faults)
LOOKALIKES = kinds_of(lookalikes)
# The server counts nothing of the time before it reads a request, nor of that in which it writes an answer as text.
_CLIENTS_ONLY = frozenset({"pool_of_connections_too_small", "answers_as_long_text"})
_LESS = ("no-statistics", "metrics-15s", "late", "all-15s", "metrics-and-clients")


def drawn_all() -> tuple[OddDrawn, ...]:
    """Return every incident, in an order that says nothing."""
    return drawn_of({**FAULTS, **LOOKALIKES}, "fourth 4", 83, _CLIENTS_ONLY, _LESS)
