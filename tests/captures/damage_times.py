"""What befalls times: clocks that jump, tick coarsely or differ, reads that are swapped, missed or glued together."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from diagnostics.wire.records import BodyKind, Scrape
from tests.captures.damage_bodies import COUNTED, TIMED, Damage, Scrapes

_JUMPS = (0.4, 1.0, 2.5, 7.0, 13.0, 30.0, 61.0, 600.0, 3600.0)
_STAMPED = (BodyKind.NVML, BodyKind.HOST)


def _times(scrapes: Scrapes) -> tuple[float, float]:
    times = [scrape.at for scrape in scrapes if scrape.kind in COUNTED]
    return (min(times), max(times)) if times else (0.0, 0.0)


def _moment(scrapes: Scrapes, draw: random.Random) -> float:
    start, end = _times(scrapes)
    return draw.uniform(start, end)


def _moved(scrape: Scrape, seconds: float, *, steady: bool) -> Scrape:
    """Return the scrape as a clock that is off by so much would file it; `steady` leaves the steady clock alone."""
    body = scrape.body
    if body and scrape.kind in _STAMPED:
        try:
            sample = json.loads(body)
            body = json.dumps({**sample, "t": sample["t"] + seconds}).encode()
        except (ValueError, KeyError, TypeError):
            pass  # it was damaged before
    return replace(scrape, at=scrape.at + seconds, mono=scrape.mono + (0.0 if steady else seconds), body=body)


def jump(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Set the clock forward or back once, or back and forth."""
    by, steady = draw.choice(_JUMPS) * draw.choice((-1, 1)), draw.random() < 0.3
    since, until = sorted((_moment(scrapes, draw), _moment(scrapes, draw)))
    until = until if draw.random() < 0.4 else float("inf")
    return [_moved(s, by, steady=steady) if s.kind in TIMED and since < s.at <= until else s for s in scrapes]


def tick_coarsely(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """File reads under whole seconds, or more."""
    tick = draw.choice([1.0, 2.0, 3.0, 5.0, 10.0])
    kinds = draw.choice([TIMED, COUNTED, (BodyKind.METRICS,), (BodyKind.STATISTICS,)])
    return [_moved(s, s.at // tick * tick - s.at, steady=False) if s.kind in kinds else s for s in scrapes]


def tremble(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """File each read a little early or late, as a recorder does that names bodies after it wrote them."""
    most = draw.choice([0.2, 1.0, 2.0])
    return [_moved(s, draw.uniform(-most, most), steady=False) if s.kind in TIMED else s for s in scrapes]


def drift(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Let the clock run fast or slow, as one that is being disciplined does."""
    start, _ = _times(scrapes)
    rate = draw.choice([-0.3, -0.05, 0.05, 0.3])
    return [_moved(s, (s.at - start) * rate, steady=False) if s.kind in TIMED else s for s in scrapes]


def skew_a_source(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Let one source's host have another time."""
    kind = draw.choice(
        [BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.NVML, BodyKind.HOST, BodyKind.INDEX, BodyKind.CLIENT]
    )
    by = draw.choice(_JUMPS) * draw.choice((-1, 1))

    def skew(scrape: Scrape) -> Scrape:
        if scrape.kind is not kind:
            return scrape
        if kind is BodyKind.CLIENT and scrape.body:
            records = [json.loads(line) for line in scrape.body.splitlines() if line.strip()]
            body = "".join(json.dumps({**record, "t": record["t"] + by}) + "\n" for record in records)
            return replace(scrape, body=body.encode())
        return _moved(scrape, by, steady=False)

    return [skew(scrape) for scrape in scrapes]


def repeat_reads(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Say some reads twice: at once, or under the time of the next, as a proxy's cache does."""
    kinds = draw.choice([TIMED, COUNTED, (BodyKind.METRICS,)])
    rate, later = draw.uniform(0.02, 0.5), draw.random() < 0.5
    if not later:
        return [*scrapes, *(s for s in scrapes if s.kind in kinds and draw.random() < rate)]
    last: dict[tuple[BodyKind, str], Scrape] = {}
    reported = []
    for scrape in sorted(scrapes, key=lambda scrape: scrape.at):
        key = scrape.kind, scrape.server
        cached = last.get(key) if scrape.kind in kinds and draw.random() < rate else None
        last[key] = cached or scrape
        reported.append(replace(scrape, body=cached.body) if cached else scrape)
    return reported


def swap_reads(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Exchange the bodies of some neighbouring reads."""
    reported = sorted(scrapes, key=lambda scrape: (scrape.kind, scrape.server, scrape.at))
    rate = draw.choice([0.05, 0.3])
    for i in range(len(reported) - 1):
        one, two = reported[i], reported[i + 1]
        if one.kind in TIMED and (one.kind, one.server) == (two.kind, two.server) and draw.random() < rate:
            reported[i], reported[i + 1] = replace(one, body=two.body), replace(two, body=one.body)
    return reported


def leave_a_gap(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Read nothing for three tenths of the window, or only one kind not."""
    start, end = _times(scrapes)
    since = draw.uniform(start, end - 0.3 * (end - start))
    kinds = draw.choice([TIMED, TIMED, (BodyKind.METRICS,), (BodyKind.STATISTICS,)])
    return [s for s in scrapes if not (s.kind in kinds and since < s.at < since + 0.3 * (end - start))]


def change_the_interval(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Read every second to sixth round only, from or up to some moment."""
    moment, every, first = _moment(scrapes, draw), draw.randint(2, 6), draw.random() < 0.5
    counts: dict[tuple[BodyKind, str], int] = {}
    kept = []
    for scrape in sorted(scrapes, key=lambda scrape: scrape.at):
        key = scrape.kind, scrape.server
        if scrape.kind in TIMED and (scrape.at < moment) is first:
            counts[key] = counts.get(key, -1) + 1
            if counts[key] % every:
                continue
        kept.append(scrape)
    return kept


def shorten(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Keep only a part of the window, down to three rounds or so."""
    start, end = _times(scrapes)
    length = draw.uniform(0.15, 0.8) * (end - start)
    since = draw.uniform(start, end - length)
    return [s for s in scrapes if s.kind not in TIMED or since <= s.at <= since + length]


def glue(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Put the recording behind itself, as two recordings kept in one folder are: the counters begin anew.

    Between the two someone restarted the server and the recorder, which takes a while.
    """
    start, end = _times(scrapes)
    later = end - start + draw.choice([30.0, 120.0, 3600.0, 86_400.0])
    timed = [scrape for scrape in scrapes if scrape.kind in TIMED]
    return [*scrapes, *(_moved(scrape, later, steady=False) for scrape in timed)]


TIME_DAMAGES: dict[str, Damage] = {
    "clock jumped": jump,
    "clock coarse": tick_coarsely,
    "clock trembling": tremble,
    "clock drifting": drift,
    "source skewed": skew_a_source,
    "reads repeated": repeat_reads,
    "reads swapped": swap_reads,
    "gap": leave_a_gap,
    "interval changed": change_the_interval,
    "window shortened": shorten,
    "windows glued": glue,
}
