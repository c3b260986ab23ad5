"""The product's own source, parsed once for the tests that look at it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("diagnostics", "exporters")
# What computes and touches nothing outside; the rest of the product is its edge.
CORE = ("wire", "window", "signals", "evidence", "anatomy", "checks", "diagnosis", "render", "tuning", "gen", "bench")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a module, the same one each time."""
    return ast.parse(path.read_text("utf-8"))


@cache
def modules(*folders: str) -> dict[str, ast.Module]:
    """Return the syntax tree of every module below `folders` by its path in the repository."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): parsed(path) for path in paths}


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length(function: Function) -> int:
    """Return its lines, docstring included, decorators not."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def texts(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield every string that the program can use: all literals but docstrings."""
    reported = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in reported:
            yield node


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted name of everything that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def called(tree: ast.Module) -> Iterator[str]:
    """Yield the text of what is called, as `time.time` or `path.open`."""
    return (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
