"""Multiplies each number that the diagnosis compares with by 0.8 and 1.2 and lists those that no test notices.

Run as `python -m tests.checks.mutate_limits [--checks] [test paths]`: every `Limit` and every numeric constant at the
top of a module of checks, signals and the ledger, one at a time, each in a process of its own. Without paths the pairs
of `test_limits.py` judge; `--checks` leaves the signals' constants out. It takes minutes, so it is no test itself.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path

import hypothesis  # noqa: F401  (loaded once, before any process forks)
import pytest

ROOT = Path(__file__).parents[2]
FACTORS = (0.8, 1.2)
FOLDERS = ("checks", "signals", "evidence")
DEFAULT = (
    "tests/checks/test_limits.py",
    "tests/checks/test_engine_limits.py",
    "tests/checks/test_gpu_and_host_limits.py",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One number of one module, and by what it is multiplied."""

    path: Path
    name: str
    factor: float

    def source(self) -> ast.Module:
        """Return the module with the number moved."""
        tree = ast.parse(self.path.read_text())
        for name, holder, field in _numbers(tree):
            if name == self.name:
                by = ast.Constant(value=self.factor)
                setattr(holder, field, ast.BinOp(left=getattr(holder, field), op=ast.Mult(), right=by))
        return ast.fix_missing_locations(tree)


def _numbers(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield each top-level constant's name, the node that holds its number, and the field it is in."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "Limit":
            yield name, next(keyword for keyword in value.keywords if keyword.arg == "value"), "value"
        elif re.fullmatch(r"[\d._]+(e-?\d+)?( / \d+)?", ast.unparse(value)):
            yield name, node, "value"


def mutants(folders: Sequence[str]) -> Iterator[Mutant]:
    """Yield every mutant of the folders' modules."""
    for folder in folders:
        for path in sorted((ROOT / "diagnostics" / folder).glob("*.py")):
            if path.name == "stated.py":
                continue
            for name, _, _ in _numbers(ast.parse(path.read_text())):
                yield from (Mutant(path=path, name=name, factor=factor) for factor in FACTORS)


def survives(mutant: Mutant, paths: Sequence[str]) -> bool:
    """Return whether all tests pass although the number moved."""
    child = os.fork()
    if child == 0:
        os._exit(_judge(mutant, paths))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _judge(mutant: Mutant, paths: Sequence[str]) -> int:
    original = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> object:
        moved = Path(loader.path) == mutant.path
        return compile(mutant.source(), loader.path, "exec") if moved else original(loader, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    # What says that any moved limit is noticed moves limits itself: it may fail for that alone.
    options = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, "-k", "not a_fifth", *paths]))


def main(arguments: Sequence[str]) -> int:
    """Print the survivors; return how many there are, as an exit status."""
    paths = [argument for argument in arguments if not argument.startswith("-")] or DEFAULT
    everything = list(mutants(FOLDERS[:1] if "--checks" in arguments else FOLDERS))
    if not survives(replace(everything[0], factor=1), paths):
        sys.exit("the tests fail although no number moved")
    survivors = [mutant for mutant in everything if survives(mutant, paths)]
    for mutant in survivors:
        print(f"{mutant.path.relative_to(ROOT)}: {mutant.name} × {mutant.factor}")
    print(f"{len(survivors)} of {len(everything)} moves went unnoticed")
    return min(len(survivors), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
