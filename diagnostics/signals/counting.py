"""Readers made from counters: rates, means per request, means per execution, with the interval that counting allows."""

from __future__ import annotations

import math

from diagnostics.signals.signal import Missing, Read, Reading
from diagnostics.units import Unit
from diagnostics.window.view import ClockFault, Counter, Delta, ModelView, clock_faults

# Thirty events give a mean whose 95 % interval is within about a third of it for exponential times (1.96/sqrt(30)).
ENOUGH_EVENTS = 30
# Below this nothing is said at all: one event more or less changes the value by a fifth.
FEWEST_EVENTS = 5
_CLOCKS = {ClockFault.BACKWARDS: Missing.CONFLICTING, ClockFault.STILL: Missing.STALE}


def total(source: str, counter: Counter, unit: Unit = Unit.COUNT) -> Read:
    """Return a reader of a counter's increase over the span."""

    def read(view: ModelView) -> Reading:
        delta = view.delta(source)
        value = delta.get(counter) if delta else None
        if delta is None or value is None:
            return absent(view, source, unit)
        return Reading.of(value, unit, source, events=value, span=delta.seconds)

    return read


def rate(source: str, counter: Counter) -> Read:
    """Return a reader of events per second; the interval is the Poisson one of the count."""

    def read(view: ModelView) -> Reading:
        delta = view.delta(source)
        value = delta.get(counter) if delta else None
        if delta is None or value is None:
            return absent(view, source, Unit.PER_SECOND)
        spread = 1.96 * math.sqrt(max(value, 1.0))
        return Reading.of(
            value / delta.seconds,
            Unit.PER_SECOND,
            source,
            low=max(value - spread, 0.0) / delta.seconds,
            high=(value + spread) / delta.seconds,
            events=value,
            span=delta.seconds,
        )

    return read


def per(source: str, top: Counter, bottom: Counter, unit: Unit) -> Read:
    """Return a reader of the ratio of two increases, such as seconds of queue per request."""

    def read(view: ModelView) -> Reading:
        delta = view.delta(source)
        if delta is None or top not in delta.values or bottom not in delta.values:
            return absent(view, source, unit)
        return mean_of(delta.values[top], delta.values[bottom], unit, source, delta)

    return read


def mean_of(top: float, events: float, unit: Unit, source: str, delta: Delta, *, estimated: bool = False) -> Reading:
    """Return top ÷ events as a reading; few events widen it, too few make it unknown, none is idle."""
    if events <= 0:
        return Reading.unknown(Missing.IDLE, unit, source)
    if events < FEWEST_EVENTS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, unit, source)
    value = top / events
    # Waiting and service times spread about as much as their mean; counters do not carry the spread itself.
    spread = value * 1.96 / math.sqrt(events)
    return Reading.of(
        value,
        unit,
        source,
        low=max(value - spread, 0.0),
        high=value + spread,
        estimated=estimated or events < ENOUGH_EVENTS,
        events=events,
        span=delta.seconds,
    )


def disorder(view: ModelView, source: str) -> Missing | None:
    """Return why no two reads of a source can be compared though there are enough; None where they can.

    Its recorder's clock ran backwards (`conflicting`) or stood still (`stale`), or counters jump back again and again
    (`reset`).
    """
    fault = view.beside(None).once(clock_faults).get(source)
    if fault is not None:
        return _CLOCKS[fault]
    return Missing.RESET if any(table.unsteady for table in view.tables(source)) else None


def absent(view: ModelView, source: str, unit: Unit) -> Reading:
    """Return why a counter of this source cannot be read: never read, read only once, or in no order."""
    if not view.server.reads[source]:
        return Reading.unknown(Missing.NOT_EXPORTED, unit, source)
    if not view.keys():
        return Reading.unknown(Missing.NOT_EXPORTED, unit, source)
    if not view.was_read(source):
        return Reading.unknown(Missing.TOO_FEW_EVENTS, unit, source)
    if (wrong := disorder(view, source)) is not None:
        return Reading.unknown(wrong, unit, source)
    if view.delta(source) is None:
        return Reading.unknown(Missing.IDLE, unit, source)
    return Reading.unknown(Missing.DISABLED, unit, source)
