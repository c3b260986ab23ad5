"""What a file of objectives allows and does not do what it seems to: alerts that cannot fire, or see too little."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.slo.burn import pairs
from diagnostics.slo.slo import Slo

# `increase` wants two samples, and a scrape may be late or fail ("What range should I use with rate()?", B. Brazil).
_SCRAPES = 4
# Prometheus' own default, seconds.
_USUAL_SCRAPE = 60.0


def cautions(slo: Slo) -> Iterator[str]:
    """Yield what whoever loads the rules of an objective must know; nothing for most."""
    told = [pair for pair in pairs(slo.period) if pair.severity not in slo.quiet]
    most = 1 / slo.allowed
    never = " and ".join(f"{pair.factor:.3g}" for pair in told if pair.factor > most)
    if never:
        yield (
            f"{slo.name}: when every event is bad its budget burns {most:.3g} times as fast as allowed: "
            f"its alerts at {never} times cannot fire"
        )
    shortest = min((pair.short for pair in told), default=_SCRAPES * _USUAL_SCRAPE)
    if shortest < _SCRAPES * _USUAL_SCRAPE:
        yield (
            f"{slo.name}: its shortest window is {shortest:g} s: alerts stay silent where what it counts is scraped "
            f"less often than every {shortest / _SCRAPES:.0f} s"
        )
