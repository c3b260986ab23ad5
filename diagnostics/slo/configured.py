"""The objectives that settings name: tables `[[slo]]`, and files."""

from __future__ import annotations

from diagnostics.errors import UsageError
from diagnostics.settings.tree import Settings, SloSettings
from diagnostics.slo.reading import read_slos
from diagnostics.slo.short_form import slo_of
from diagnostics.slo.slo import Slo, unique


def configured(settings: Settings) -> tuple[Slo, ...]:
    """Return the objectives.

    Raises:
        UsageError: one cannot be used, two have the same name, or one names a deployment that is not there.

    """
    found = unique([*map(_slo, settings.slo), *read_slos(settings.slo_files)])
    known = {one.name for one in settings.deployment}
    for one in settings.slo:
        if one.deployment is not None and known and one.deployment not in known:
            hint = f"there is {', '.join(sorted(known))}"
            raise UsageError(f"there is no deployment {one.deployment!r}", where=f"slo {one.name}", hint=hint)
    return found


def _slo(one: SloSettings) -> Slo:
    where = f"slo {one.name}"
    if one.model is not None and one.ensemble is not None:
        raise UsageError("names a model and an ensemble", where=where, hint="name one of them")
    return slo_of(
        name=one.name,
        objective=one.objective,
        target=one.model or one.ensemble,
        availability=one.availability,
        latency=one.latency,
        time_to_first_token=one.time_to_first_token,
        period=one.period,
        tenant=one.tenant,
        deployment=one.deployment,
        description=one.description,
        labels=one.labels,
        where=where,
    )
