"""A service level objective, whatever file it was written in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from diagnostics.errors import UsageError

DEFAULT_PERIOD = 30 * 86400.0
SHORTEST_PERIOD, LONGEST_PERIOD = 3600.0, 366 * 86400.0
# What stands in a PromQL query for the range that it is asked over.
WINDOW = "$window"
# A name is a label of metrics and part of the names of recording rules.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Prometheus' data model: two underscores at the beginning are its own.
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


class Promise(StrEnum):
    """What a good request is."""

    AVAILABILITY = "availability"
    LATENCY = "latency"
    FIRST_TOKEN = "time_to_first_token"  # noqa: S105 - a token of text


@dataclass(frozen=True, slots=True, kw_only=True)
class Triton:
    """Requests to one model or ensemble of Triton.

    Attributes:
        promise: what a good one is.
        model: the model or ensemble that is called, all its versions.
        seconds: within which a good request is answered; None for availability.
        tags: labels that the model's series must carry (Triton's `metric_tags`): a tenant, a class of clients.
        deployment: whose servers; None means all.

    """

    promise: Promise
    model: str
    seconds: float | None = None
    tags: tuple[tuple[str, str], ...] = ()
    deployment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promql:
    """Two queries for counts or rates of events, with `WINDOW` for their range; of `good` and `bad` one is given."""

    total: str
    good: str | None = None
    bad: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """One objective.

    Attributes:
        name: as metrics, alerts and reports call it.
        objective: the share of good events that is promised, above 0 and below 1.
        period: seconds over which it is promised, always the newest.
        sli: which events, and which of them are good.
        description: as written; may be empty.
        labels: added to its alerts; a `severity` among them is theirs.
        alert_labels: the same for alerts of one severity, `page` or `ticket`, and over those of all.
        quiet: severities of which nobody is notified: `page`, `ticket`.
        where: the file and line it was read from.

    """

    name: str
    objective: float
    sli: Triton | Promql
    period: float = DEFAULT_PERIOD
    description: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    alert_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quiet: frozenset[str] = frozenset()
    where: str = ""

    @property
    def allowed(self) -> float:
        """The share of events that may be bad."""
        return 1.0 - self.objective

    @property
    def definition(self) -> str:
        """What is counted, as a short text that differs where counts must not be added: not the objective."""
        return hashlib.sha256(repr(self.sli).encode(errors="backslashreplace")).hexdigest()[:12]


def checked(slo: Slo) -> Slo:
    """Return the objective.

    Raises:
        UsageError: a value cannot be used.

    """

    def wrong(what: str, hint: str = "") -> UsageError:
        return UsageError(what, where=slo.where, hint=hint)

    if not _NAME.fullmatch(slo.name):
        raise wrong(f"{slo.name[:100]!r} cannot be a name", "use letters, digits, '-', '_' and '.', at most 100")
    if not 0 < slo.objective < 1:
        hint = "write 99.9 % as 0.999, in Sloth's files as 99.9"
        raise wrong(f"an objective of {slo.objective * 100:g} % cannot be missed or met", hint)
    if not SHORTEST_PERIOD <= slo.period <= LONGEST_PERIOD:
        raise wrong("a period is between an hour and a year", "30d is usual")
    _check_labels(slo, wrong)
    if isinstance(slo.sli, Triton):
        _check(slo.sli, wrong)
    return slo


def _check_labels(slo: Slo, wrong: Callable[[str, str], UsageError]) -> None:
    tags = dict(slo.sli.tags) if isinstance(slo.sli, Triton) else {}
    labels = [each for some in (slo.labels, *slo.alert_labels.values()) for each in some.items()]
    for name in (*(name for name, _ in labels), *tags):
        if not _LABEL.fullmatch(name):
            raise wrong(f"{name[:100]!r} is no label of Prometheus", "use letters, digits and '_'")
    for name, value in labels:
        if name == "slo":
            raise wrong("the label slo is the objective's name on every series and alert", "call it something else")
        if value.count("{{") != value.count("}}"):
            raise wrong(f"the label {name} holds a template of Prometheus that does not end", "close it with }}")


def _check(sli: Triton, wrong: Callable[[str, str], UsageError]) -> None:
    if not sli.model:
        raise wrong("names no model or ensemble", "write model or ensemble")
    if sli.promise is not Promise.AVAILABILITY and not (sli.seconds and 0 < sli.seconds < 86_400):
        raise wrong("a time limit is above 0 and below a day", "write it like 500ms or 1.5s")


def unique(slos: list[Slo]) -> tuple[Slo, ...]:
    """Return the objectives.

    Raises:
        UsageError: two have the same name.

    """
    known: dict[str, Slo] = {}
    for one in slos:
        if known.setdefault(one.name, one) is not one:
            raise UsageError(f"{one.name!r} is the name of another too, of {known[one.name].where}", where=one.where)
    return tuple(slos)
