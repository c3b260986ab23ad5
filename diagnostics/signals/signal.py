"""A signal: one quantity, spelled once, with its readers. The order of the readers is their precedence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import ModelView

Read = Callable[[ModelView], Reading]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One quantity.

    Attributes:
        name: stable snake_case name, as in JSON evidence.
        unit: unit of every reading.
        scope: what it is read for.
        doc: one sentence: what the number means and how it is computed.
        readers: functions of a view, best source first; the first present reading is the signal's value.
        fix: what to switch on when no reader has it, for the list of blind spots.

    """

    name: str
    unit: Unit
    scope: Scope
    doc: str
    readers: tuple[Read, ...]
    fix: str = ""

    def read(self, view: ModelView) -> Reading:
        """Return the first present reading; when none is, the last reader's reason that says more than absence."""
        reason = Missing.NOT_EXPORTED
        for reader in self.readers:
            reading = reader(view)
            if reading.missing is None:
                return reading
            if reading.missing is not Missing.NOT_EXPORTED:
                reason = reading.missing
        return Reading.unknown(reason, self.unit)
