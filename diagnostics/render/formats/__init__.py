"""Forms besides text in which any document can be written: a module each, with `write`. No registry."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from diagnostics.render.document import Document


def form_names() -> tuple[str, ...]:
    """Return the forms, as `--output` takes them."""
    return tuple(sorted(entry.name for entry in pkgutil.iter_modules(__path__)))


def written(document: Document, form: str) -> str:
    """Return the document in one of the forms; names from servers cannot break out of it."""
    text: str = import_module(f"{__name__}.{form}").write(document)
    return text
