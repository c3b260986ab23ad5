"""The three forms a file of objectives may have: OpenSLO's, Sloth's and this project's short one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from diagnostics.errors import UsageError
from diagnostics.settings.yaml_file import YamlDocument
from diagnostics.slo import openslo
from diagnostics.slo.fields import YamlFields, short_form
from diagnostics.slo.slo import Slo

_SLOTH_RESOURCE = "sloth.slok.dev/"
_HINT = "begin with apiVersion: openslo/v1, with version: prometheus/v1 (Sloth), or with a list slo:"
# An objective with an indicator of its own is written eleven levels deep.
_DEEPEST = 16


def slos_of(file: Path) -> list[Slo]:
    """Return the objectives of a file.

    Raises:
        UsageError: it cannot be read, is in no form that is known, or holds something that cannot be used.

    """
    document = YamlDocument(file, _DEEPEST)
    parts = [YamlFields(document, leaf, "the file") for leaf in document.roots]
    if not parts:
        raise UsageError("holds nothing", where=str(file), hint=_HINT)
    found = [*_of(parts), *openslo.openslo([one for one in parts if one.has("apiVersion")])]
    if not found:
        raise parts[0].wrong("holds no objective", _HINT)
    return found


def _of(parts: Sequence[YamlFields]) -> Iterator[Slo]:
    """Yield the objectives of the documents that stand for themselves; refuse those of no known form."""
    for one in parts:
        if one.has("apiVersion") and one.text("apiVersion").startswith(_SLOTH_RESOURCE):
            hint = f"write version: {openslo.SLOTH_VERSION}, then its spec, with error_query for errorQuery and so on"
            raise one.wrong("is Sloth's resource for Kubernetes, not its file", hint, "apiVersion")
        if one.has("apiVersion"):
            _expect(one, "apiVersion", openslo.OPENSLO_VERSION)
        elif one.has("version"):
            _expect(one, "version", openslo.SLOTH_VERSION)
            yield from openslo.sloth(one)
        elif one.has("slo"):
            yield from short_form(one)
        else:
            raise one.wrong("is in no form of objectives that is known", _HINT)


def _expect(document: YamlFields, key: str, version: str) -> None:
    if document.text(key) != version:
        raise document.wrong(f"{key} {document.text(key)[:60]!r} is not supported", f"write {version}", key)
