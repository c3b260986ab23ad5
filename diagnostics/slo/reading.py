"""Reads files of objectives; the library that reads YAML is asked for only here."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from diagnostics.errors import UsageError, not_installed
from diagnostics.settings.load import Loaded
from diagnostics.settings.tree import SloSettings
from diagnostics.slo.fields import slo_of
from diagnostics.slo.slo import Slo, unique


def read_slos(files: Iterable[Path]) -> tuple[Slo, ...]:
    """Return the objectives of some files.

    Raises:
        UsageError: a file cannot be read, is in no form that is known, or holds something that cannot be used; or
            two objectives have the same name.

    """
    try:
        forms = import_module("diagnostics.slo.forms")
    except ModuleNotFoundError as error:
        raise not_installed(error, "serve", where="files of objectives") from None
    return unique([slo for file in files for slo in forms.slos_of(_no_settings(file))])


def _no_settings(file: Path) -> Path:
    """Return the file of objectives; one that is TOML, as settings are, is refused."""
    if file.suffix.lower() == ".toml":
        hint = "give it as --config.file, whose [[slo]] tables count; files of objectives are YAML"
        raise UsageError("is a file of settings, not of objectives", where=str(file), hint=hint)
    return file


def configured(loaded: Loaded) -> tuple[Slo, ...]:
    """Return the objectives.

    Raises:
        UsageError: one cannot be used, two have the same name, or one names a deployment that is not there.

    """
    settings = loaded.settings
    tables = [_slo(one, loaded.where(f"slo.{number}")) for number, one in enumerate(settings.slo)]
    found = unique([*tables, *_in_files(loaded)])
    # What will be found cannot be known yet.
    known = {one.name for one in settings.deployment} if not settings.discovery.sources else set()
    for number, one in enumerate(settings.slo):
        if one.deployment is not None and known and one.deployment not in known:
            hint = f"there is {', '.join(sorted(known))}"
            where = loaded.where(f"slo.{number}.deployment")
            raise UsageError(f"there is no deployment {one.deployment!r}", where=where, hint=hint)
    return found


def _in_files(loaded: Loaded) -> tuple[Slo, ...]:
    try:
        return read_slos(loaded.settings.slo_files)
    except UsageError as error:
        where = f"{loaded.where('slo_files')}: {error.where}"
        raise UsageError(error.what, where=where, hint=error.hint) from None


def _slo(one: SloSettings, where: str) -> Slo:
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
