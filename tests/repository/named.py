"""The names of the product's own code: public classes by file, and identifiers by the words that they are made of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from diagnostics.wire.servers.kind import ServerKind
from tests.repository.source import modules, texts

FOLDERS = ("diagnostics", "exporters", "dashboards", "deploy")
# They make a program a person. An SRE would write reported, requested, validator or overload.
PERSONAL = frozenset({"told", "said", "asked", "court", "crowd"})
# The field of a load test's JSON report keeps its name, as reports that were saved have it.
KEPT_FIELD, ITS_FOLDERS = "asked", ("diagnostics/bench/", "diagnostics/loadgen/", "diagnostics/render/bench/")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def files_by_class(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Return the files in which each public class is defined, by its name."""
    found: dict[str, set[str]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(path)
    return found


def duplicates() -> dict[str, set[str]]:
    """Return the public classes of one name in several files."""
    return {name: paths for name, paths in files_by_class(modules(*FOLDERS)).items() if len(paths) > 1}


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Yield every name that a module defines or uses."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.alias(asname=str(name)):
                yield name


def words(identifier: str) -> set[str]:
    """Return the words that an identifier is made of, in lower case."""
    return {word.lower() for word in _WORD.findall(identifier)}


def personal(path: str, tree: ast.Module) -> list[str]:
    """Return the identifiers of a module that are made of words that make a program a person."""
    kept = KEPT_FIELD if path.startswith(ITS_FOLDERS) else ""
    found = (name for name in identifiers(tree) if name != kept)
    return sorted({name for name in found if words(name) & PERSONAL})


def knowing(kind: ServerKind, trees: Mapping[str, ast.Module]) -> list[str]:
    """Return the files whose code has the name of a kind of servers, or of a series that no other kind exports.

    Prose that mentions a server does not count: nobody has to extend it for the next kind.
    """
    return sorted(
        path
        for path, tree in trees.items()
        if any(text.value == kind.name or text.value.startswith(kind.prefixes) for text in texts(tree))
    )
