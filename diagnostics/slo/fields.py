"""The values of a YAML file as an objective needs them; every mistake is reported with its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from diagnostics.errors import UsageError
from diagnostics.settings.yaml_file import Leaf, YamlDocument
from diagnostics.slo.slo import DEFAULT_PERIOD, Promise, Slo, Triton, checked
from diagnostics.units import parse_duration


@contextmanager
def of_objective(name: str) -> Iterator[None]:
    """Say in errors which objective they are about."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{name}: {error.what}", where=error.where, hint=error.hint) from None


@dataclass(frozen=True, slots=True)
class YamlFields:
    """One mapping of a file. `what` is how messages call it."""

    document: YamlDocument
    leaf: Leaf
    what: str

    def wrong(self, what: str, hint: str = "", key: str | None = None) -> UsageError:
        """Return the error that says what is wrong, at the line of `key`, else of the mapping."""
        inner = self._mapping().get(key) if key is not None and isinstance(self.leaf.value, Mapping) else None
        return UsageError(what, where=f"{self.document.file}:{(inner or self.leaf).line}", hint=hint)

    def only(self, *known: str) -> YamlFields:
        """Return itself; a key that is not among these is an error, as it may be a mistyped one."""
        self.document.section(self.leaf, frozenset(known), self.what)
        return self

    def has(self, key: str) -> bool:
        """Return whether a key has a value."""
        inner = self._mapping().get(key)
        return inner is not None and inner.value is not None

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; one without a default must be there."""
        if not self.has(key):
            if default is None:
                raise self.wrong(f"{self.what} has no {key}", f"write {key}: …")
            return default
        return self.document.text(self._mapping()[key], key).strip()

    def number(self, key: str, hint: str = "") -> float:
        """Return a number; `hint` says how one is written here."""
        text = self.text(key)
        try:
            return float(text)
        except ValueError:
            raise self.wrong(f"{key} is {text[:40]!r}, which is no number", hint, key) from None

    def percent(self, key: str) -> float:
        """Return a share that is written in percent; one below 1 % is a share that was not."""
        value = self.number(key, "write 99 % as 99")
        if 0 < value < 1:
            hint = f"it is in percent here: write {100 * value:.10g} for {100 * value:.10g} %"
            raise self.wrong(f"{key} is {value:g} %, which is not a sensible objective", hint, key)
        return value / 100

    def flag(self, key: str) -> bool:
        """Return whether a key is true; it is not where it is not written."""
        text = self.text(key, "false").lower()
        if text not in ("true", "false"):
            raise self.wrong(f"{key} is {text[:40]!r}, which is neither true nor false", key=key)
        return text == "true"

    def seconds(self, key: str) -> float:
        """Return a duration."""
        text = self.text(key)
        value = parse_duration(text)
        if value is None or not text[-1:].isalpha():
            raise self.wrong(f"{key} is {text[:40]!r}, which is no duration", "write 500ms, 1.5s or 30d", key)
        return value

    def section(self, key: str) -> YamlFields:
        """Return the mapping below a key, which must be there."""
        if not self.has(key):
            raise self.wrong(f"{self.what} has no {key}", f"write {key}: …")
        inner = YamlFields(self.document, self._mapping()[key], key)
        inner._mapping()
        return inner

    def sections(self, key: str) -> list[YamlFields]:
        """Return the mappings of the list below a key, which must be there and hold one."""
        found = self._mapping().get(key)
        if found is None or not isinstance(found.value, list) or not found.value:
            raise self.wrong(f"{self.what} has no list of {key}", f"write {key}:, then '- name: …'", key)
        for number, leaf in enumerate(found.value, start=1):
            if not isinstance(leaf.value, Mapping):
                what = f"entry {number} of {key} is no mapping"
                raise YamlFields(self.document, leaf, key).wrong(what, "write each with its keys, as in '- name: …'")
        return [YamlFields(self.document, leaf, key) for leaf in found.value]

    def texts(self, key: str) -> dict[str, str]:
        """Return a mapping of texts; empty where there is none."""
        if not self.has(key):
            return {}
        inner = self.section(key)
        return {name: inner.text(name, "") for name in inner._mapping()}

    def keys(self) -> frozenset[str]:
        """Return the keys that are written."""
        return frozenset(self._mapping())

    def _mapping(self) -> Mapping[str, Leaf]:
        if self.leaf.value is None:
            return {}
        if not isinstance(self.leaf.value, Mapping):
            raise UsageError(f"{self.what} is no mapping", where=f"{self.document.file}:{self.leaf.line}")
        return self.leaf.value


KEYS = (
    "name",
    "objective",
    "model",
    "ensemble",
    "availability",
    "latency",
    "time_to_first_token",
    "period",
    "tenant",
    "deployment",
    "description",
    "labels",
)


def slo_of(
    *,
    name: str,
    objective: float,
    target: str | None,
    availability: bool,
    latency: float | None,
    time_to_first_token: float | None,
    period: float | None,
    tenant: Mapping[str, str],
    deployment: str | None,
    description: str,
    labels: Mapping[str, str],
    where: str,
) -> Slo:
    """Return the objective. Times are seconds; `target` is the model or ensemble.

    Raises:
        UsageError: it promises nothing, several things, or something that cannot be kept or missed.

    """
    limits = {Promise.LATENCY: latency, Promise.FIRST_TOKEN: time_to_first_token}
    given = {promise: seconds for promise, seconds in limits.items() if seconds is not None}
    if availability + len(given) != 1:
        hint = "write one of availability = true, latency = '500ms', time_to_first_token = '1s'"
        raise UsageError(f"{name} promises {'several things' if given else 'nothing'}", where=where, hint=hint)
    promise, seconds = next(iter(given.items()), (Promise.AVAILABILITY, None))
    sli = Triton(
        promise=promise,
        model=target or "",
        seconds=seconds,
        tags=tuple(sorted(tenant.items())),
        deployment=deployment,
    )
    whole = DEFAULT_PERIOD if period is None else period
    slo = Slo(
        name=name, objective=objective, sli=sli, period=whole, description=description, labels=labels, where=where
    )
    return checked(slo)


def short_form(document: YamlFields) -> Iterator[Slo]:
    """Yield the objectives of a YAML document.

    Raises:
        UsageError: something is missing, mistyped or cannot be used.

    """
    for one in document.only("slo").sections("slo"):
        one.only(*KEYS)
        if one.has("model") and one.has("ensemble"):
            raise one.wrong("names a model and an ensemble", "name one of them", "model")
        yield slo_of(
            name=one.text("name"),
            objective=one.number("objective", "write 99 % as 0.99"),
            target=one.text("model", "") or one.text("ensemble", ""),
            availability=one.flag("availability"),
            latency=one.seconds("latency") if one.has("latency") else None,
            time_to_first_token=one.seconds("time_to_first_token") if one.has("time_to_first_token") else None,
            period=one.seconds("period") if one.has("period") else None,
            tenant=one.texts("tenant"),
            deployment=one.text("deployment") if one.has("deployment") else None,
            description=one.text("description", ""),
            labels=one.texts("labels"),
            where=f"{one.document.file}:{one.leaf.line}",
        )
