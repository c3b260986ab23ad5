"""Every regular expression of the product takes time that is linear in its text."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from tests.repository.patterns import reasons
from tests.repository.source import PRODUCT, ROOT, modules

ANCHORED, WHOLE = ("match", "fullmatch"), "fullmatch"
TAKING_PATTERNS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
# A pattern by its module and name, and why a text that it is given cannot be long, or why it is linear all the same.
ALLOWED: dict[tuple[str, str], str] = {
    ("diagnostics/demo/server.py", "_ENTRY"): "the log of the server that the demo itself has started",
    ("diagnostics/slo/promql.py", "_TOKEN"): "the first quote that nothing closes ends the reading",
    ("diagnostics/tuning/pbtxt.py", "_STRING"): "sought within strings alone that are known to close",
    ("diagnostics/wire/redact.py", "_PRIVATE_KEY"): "what begins ends at the end of the text at the latest",
    ("diagnostics/wire/redact.py", "_PARAMETER"): "no key begins in what an earlier one takes for its value",
    ("diagnostics/wire/redact.py", "_WORD"): "a run of capitals gives back one letter at most",
    ("exporters/sources/prometheus_api.py", "_ONE"): "sought where _SELECTOR has matched, one after the other",
}
COLLECTING = """
import importlib, json, re, sys
found = []
for path in sys.argv[1:]:
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    todo = [(name, value, 0) for name, value in vars(module).items()]
    while todo:
        name, value, depth = todo.pop()
        if isinstance(value, re.Pattern):
            text = value.pattern
            binary = isinstance(text, bytes)
            found.append((path, name, text.decode("latin-1") if binary else text, binary, value.flags))
        elif depth < 4 and isinstance(value, (tuple, list, set, frozenset, dict)):
            inner = value.values() if isinstance(value, dict) else value
            todo += [(name, each, depth + 1) for each in inner]
print(json.dumps(found))
"""


class Written(NamedTuple):
    """A pattern of the product, and how it is used."""

    path: str
    name: str
    pattern: str | bytes
    flags: int
    uses: frozenset[str]


@cache
def compiled() -> tuple[Written, ...]:
    """Return the patterns that modules hold, by the name that they are bound to."""
    sources = [path for path in modules(*PRODUCT) if "re.compile(" in (ROOT / path).read_text("utf-8")]
    requested = [sys.executable, "-c", COLLECTING, *sources]
    found = json.loads(subprocess.run(requested, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    unique = {}
    for path, name, text, binary, flags in found:
        pattern = text.encode("latin-1") if binary else text
        unique[path, name, text] = Written(path, name, pattern, flags, frozenset(uses(path, name)))
    return tuple(unique.values())


def uses(path: str, name: str) -> Iterator[str]:
    """Yield the methods that a pattern is called by, in its own module."""
    for node in ast.walk(modules(*PRODUCT)[path]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            yield node.attr


def inline() -> Iterator[Written]:
    """Yield the patterns that are written where they are used; what is put into one counts as an `x`."""
    for path, tree in modules(*PRODUCT).items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args:
                method = ast.unparse(node.func).removeprefix("re.")
                text = literal(node.args[0])
                if method in TAKING_PATTERNS and text is not None:
                    yield Written(path, str(node.args[0].lineno), text, 0, frozenset({method}))


def literal(node: ast.expr) -> str | bytes | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return None


def slow(one: Written) -> list[str]:
    anchored = bool(one.uses) and one.uses <= {*ANCHORED}
    return reasons(one.pattern, one.flags, sought=not anchored, whole=WHOLE in one.uses)


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "a+b", "a*a*b", r"(?:\w+\s*)*x", "(?:a|ab)*c", '"(?:[^"\\\\]|\\\\.)*"', "x.*y.*z", "a++b", r"\s+$"],
)
def test_a_slow_pattern_is_noticed(pattern: str) -> None:
    assert reasons(pattern)


@pytest.mark.parametrize(
    "pattern", [r"\w+", "'[^']*'", "(?<!a)a++b", r"\Aa+b", "b[a-c]{0,9}d", r"\b\w+", "x(?:,[^,]+)*"]
)
def test_a_linear_pattern_is_not(pattern: str) -> None:
    assert not reasons(pattern)


def test_patterns_are_linear_in_their_text() -> None:
    found = {(one.path, one.name): (one.pattern, slow(one)) for one in (*compiled(), *inline()) if slow(one)}
    assert {place: reported for place, reported in found.items() if place not in ALLOWED} == {}
    assert not ALLOWED.keys() - found.keys()
