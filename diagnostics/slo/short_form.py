"""Objectives in this project's own short form: `[[slo]]` of the settings, or a list `slo:` of a YAML file.

[[slo]]
name = "chat-latency"
objective = 0.99
ensemble = "chat"
latency = "500ms"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from diagnostics.errors import UsageError
from diagnostics.slo.fields import YamlFields
from diagnostics.slo.slo import DEFAULT_PERIOD, Promise, Slo, Triton, checked

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
