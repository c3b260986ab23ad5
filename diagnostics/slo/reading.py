"""Reads files of objectives; the library that reads YAML is asked for only here."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from diagnostics.errors import not_installed
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
    return unique([slo for file in files for slo in forms.slos_of(file)])
