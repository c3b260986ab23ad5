"""Units that are files: a folder's modules that declare one, and their docstrings as pages of sections."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from inspect import cleandoc
from types import ModuleType


def declaring(package: ModuleType, name: str) -> Mapping[str, ModuleType]:
    """Return the modules of a package that have a `name`, sorted by id: the module's name with dashes."""
    modules = (import_module(f"{package.__name__}.{entry.name}") for entry in pkgutil.iter_modules(package.__path__))
    found = {
        module.__name__.rpartition(".")[2].replace("_", "-"): module for module in modules if hasattr(module, name)
    }
    return dict(sorted(found.items()))


def page_of(module: ModuleType) -> str:
    """Return a module's page: its docstring, of which the first line is the title; empty without one."""
    return cleandoc(module.__doc__ or "")


def title_of(page: str) -> str:
    """Return a page's title, without a full stop."""
    return page.partition("\n")[0].rstrip(".")


def sections_of(page: str) -> dict[str, str]:
    """Return a page's sections by heading, in order."""
    parts = page.split("\n## ")[1:]
    return {part.partition("\n")[0].strip(): part.partition("\n")[2].strip() for part in parts}
