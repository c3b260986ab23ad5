"""What servers cannot be asked, in the words of an explanation."""

from __future__ import annotations

from collections.abc import Iterable

from diagnostics.diagnosis.explanation import BlindSpot
from exporters.sources.triton_server import TritonServer


def blind_spots(servers: Iterable[TritonServer]) -> list[BlindSpot]:
    """Return the gaps of servers that something opens."""
    return [BlindSpot(what=gap.what, why=gap.why, fix=gap.fix) for one in servers for gap in one.gaps if gap.fix]
