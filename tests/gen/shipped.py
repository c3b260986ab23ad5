"""The files that `diag gen` writes, made once for the tests that look at them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from diagnostics.checks.catalogue import catalogue
from diagnostics.gen.files import generated

RUNBOOKS = "https://runbooks.example.org/triton/"


@cache
def files() -> Mapping[str, str]:
    """Return the text of every file by its path."""
    return generated(catalogue(), RUNBOOKS)
