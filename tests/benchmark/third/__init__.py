"""Incidents of a third table of kinds, drawn, recorded and labelled as those of `again`."""

from __future__ import annotations

from tests.benchmark.again import OddDrawn, drawn_of, kinds_of
from tests.benchmark.third import faults, lookalikes

FAULTS = kinds_of(faults)
LOOKALIKES = kinds_of(lookalikes)
# The server counts nothing of requests that it does not take, nor of the time before it reads one.
_CLIENTS_ONLY = frozenset({"asks_for_a_version_that_is_gone", "rows_past_the_limit"})


def drawn_all() -> tuple[OddDrawn, ...]:
    """Return every incident, in an order that says nothing."""
    return drawn_of({**FAULTS, **LOOKALIKES}, "third 12", 47, _CLIENTS_ONLY)
