"""What is spoken of (a subject), what is known of it (a reading), and a signal: one quantity with its readers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from diagnostics.units import Unit
from diagnostics.window.view import ModelView


class Scope(StrEnum):
    """The kind of subject that a signal is read for, or a check runs over."""

    SERVER = "server"
    MODEL = "model"
    ENSEMBLE = "ensemble"
    GPU = "gpu"
    # What users call: each ensemble, and each model that no ensemble calls (all its versions).
    ENTRY = "entry"
    # Each model of the repository index, served or not; and whatever was away for a while, a server as well.
    LISTED = "listed"


_ABBREVIATIONS = frozenset({"cpu", "gpu", "kv", "sm"})
_UUID_TAIL = re.compile(r"((?:GPU|MIG)-[0-9a-f]{8})-[0-9a-f-]{27}")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Subject:
    """Hashable name of a thing that readings and findings are about.

    `version` None on a model means all its versions together.
    """

    server: str
    model: str | None = None
    version: str | None = None
    gpu: str | None = None
    ensemble: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """Return the JSON form of the contract, absent parts as null."""
        return {
            "server": self.server,
            "model": self.model,
            "version": self.version,
            "gpu": self.gpu,
            "ensemble": self.ensemble,
        }

    @property
    def gpu_name(self) -> str | None:
        """The GPU's UUID cut after its first eight hexadecimal digits, which fit a phone; any other name whole.

        CUDA_VISIBLE_DEVICES takes such a prefix for the whole UUID.
        """
        return self.gpu and _UUID_TAIL.sub(r"\1", self.gpu)

    def within(self, ensemble: str | None) -> Subject:
        """Return the same subject as seen from one ensemble."""
        if self.ensemble == ensemble:
            return self
        return Subject(server=self.server, model=self.model, version=self.version, gpu=self.gpu, ensemble=ensemble)

    def __str__(self) -> str:
        parts = [part for part in (self.model and f"model {self.model}", self.gpu_name) if part]
        if self.model is None and self.ensemble:
            parts.append(f"ensemble {self.ensemble}")
        return ", ".join(parts) or f"server {self.server}"


class Missing(StrEnum):
    """Why a reading has no value."""

    NOT_EXPORTED = "not_exported"
    DISABLED = "disabled"
    STALE = "stale"
    IDLE = "idle"
    TOO_FEW_EVENTS = "too_few_events"
    RESET = "reset"
    UNSUPPORTED_VERSION = "unsupported_version"
    CONFLICTING = "conflicting"


# A verdict makes thousands: a structure is made in a tenth of a data class's time, and holds nothing of a cycle.
class Reading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One value with all that is needed to trust it or not.

    Attributes:
        value: in `unit`; None exactly when `missing` is set.
        low, high: the interval that holds the true value at about 95 %; equal to `value` when exact.
        source: where it was read: `statistics`, `metrics`, `configuration`, `nvml`, `host` or a list of them.
        estimated: the value is derived through an assumption or is a bound.
        events: how many requests, executions or samples stand behind it; None for settings.
        span: seconds of observation behind it; None for settings.

    """

    value: float | None
    low: float | None
    high: float | None
    unit: Unit
    source: str
    estimated: bool = False
    events: float | None = None
    span: float | None = None
    missing: Missing | None = None

    @classmethod
    def of(
        cls,
        value: float,
        unit: Unit,
        source: str,
        *,
        low: float | None = None,
        high: float | None = None,
        estimated: bool = False,
        events: float | None = None,
        span: float | None = None,
    ) -> Reading:
        """Return a present reading; without `low` and `high` it is exact."""
        return cls(
            value=value,
            low=value if low is None else low,
            high=value if high is None else high,
            unit=unit,
            source=source,
            estimated=estimated,
            events=events,
            span=span,
        )

    @classmethod
    def unknown(cls, missing: Missing, unit: Unit, source: str = "") -> Reading:
        """Return an absent reading with its reason."""
        return cls(value=None, low=None, high=None, unit=unit, source=source, missing=missing)

    def with_unit(self, unit: Unit) -> Reading:
        """Return the same reading in another unit; the caller vouches for the meaning."""
        return msgspec.structs.replace(self, unit=unit)

    def from_source(self, source: str) -> Reading:
        """Return the same reading as one of another source: where its value, or the lack of it, comes from."""
        return msgspec.structs.replace(self, source=source)

    def at_most(self, most: float) -> Reading:
        """Return the same reading, cut off at a bound that is known besides; in the reading's unit."""
        if self.high is None or self.high <= most:
            return self
        value, low = min(_known(self.value), most), min(_known(self.low), most)
        return msgspec.structs.replace(self, value=value, low=low, high=most)

    def __add__(self, other: Reading) -> Reading:
        return self._combine(other, self.unit, lambda a, b: a + b)

    def __sub__(self, other: Reading) -> Reading:
        return self._combine(other, self.unit, lambda a, b: a - b)

    def __mul__(self, other: Reading) -> Reading:
        unit = other.unit if self.unit in (Unit.RATIO, Unit.COUNT) else self.unit
        return self._combine(other, unit, lambda a, b: a * b)

    def __truediv__(self, other: Reading) -> Reading:
        """Divide; a divisor that may be zero gives an absent reading with reason `idle`: its ratio has no bounds."""
        unit = Unit.RATIO if self.unit == other.unit else self.unit
        if other.low is not None and other.high is not None and other.low <= 0 <= other.high:
            return Reading.unknown(Missing.IDLE, unit, other.source)
        return self._combine(other, unit, lambda a, b: a / b)

    def _combine(self, other: Reading, unit: Unit, operate: Callable[[float, float], float]) -> Reading:
        for side in (self, other):
            if side.missing is not None:
                return Reading.unknown(side.missing, unit, side.source)
        corners = [operate(a, b) for a in self._interval() for b in other._interval()]
        sources = {*self.source.split(" and "), *other.source.split(" and ")} - {""}
        return Reading(
            value=operate(_known(self.value), _known(other.value)),
            low=min(corners),
            high=max(corners),
            unit=unit,
            source=" and ".join(sorted(sources)),
            estimated=self.estimated or other.estimated,
            events=_least(self.events, other.events),
            span=_least(self.span, other.span),
        )

    def _interval(self) -> tuple[float, float]:
        return _known(self.low), _known(self.high)


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a present reading always has value, low and high")
    return value


def _least(a: float | None, b: float | None) -> float | None:
    present = [value for value in (a, b) if value is not None]
    return min(present) if present else None


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

    @property
    def phrase(self) -> str:
        """The name as a sentence has it: "GPU memory errors"."""
        return " ".join(word.upper() if word in _ABBREVIATIONS else word for word in self.name.split("_"))

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
