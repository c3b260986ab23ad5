"""Moves each number that the diagnosis decides by, a fifth down and a fifth up, and lists those that no test notices.

Run as `python -m tests.checks.mutate_limits [--jobs N] [folder or module …] [test paths …]`: every `Limit`, every
numeric constant at the top of a module, and every number that a function of a check or a signal compares or multiplies
with, one at a time. Whole numbers step to the next one that is at least a fifth away. It takes many minutes, so it is
no test itself; it prints a total and exits 1 when a number moves unnoticed.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.checks.exempt import EXEMPT
from tests.checks.mutation import JUDGES, ROOT, Mutant, survivors

FACTORS = (0.8, 1.2)
# Functions of these hold no number that decides and has no name.
INSIDE = ("checks", "signals")
# Halves, doubles, counts and indices.
PLAIN = (-1, 0, 1, 2)


def _numbers(tree: ast.Module, *, inside: bool) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield each number's name, the node that holds it, and the field it is in, in the order of the text."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from _constants(node)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            yield from _limits(node.value)
    if inside:
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                yield from _literals(function)


def _constants(node: ast.Assign) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield the number, or the numbers of a tuple, that an assignment gives to names."""
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        # A keyword of its own lets a tuple's element be replaced as other numbers are.
        value.elts = [ast.NamedExpr(target=ast.Name("_", ast.Store()), value=one) for one in value.elts]
        for one, held in zip(target.elts, value.elts, strict=True):
            yield from _constant(ast.unparse(one), held, held.value)  # type: ignore[attr-defined]
    elif isinstance(target, ast.Name):
        yield from _constant(target.id, node, value)


def _constant(name: str, node: ast.AST, value: ast.expr) -> Iterator[tuple[str, ast.AST, str]]:
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "Limit":
        yield name, next(keyword for keyword in value.keywords if keyword.arg == "value"), "value"
    elif re.fullmatch(r"[\d._]+(e-?\d+)?( (/|\*|\*\*) [\d._]+)*", ast.unparse(value)):
        yield name, node, "value"


def _limits(value: ast.expr) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield limits that have no constant of their own: those written in place, in a dict or a call."""
    for node in ast.walk(value):
        if node is not value and isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Limit":
            keyword = next(keyword for keyword in node.keywords if keyword.arg == "value")
            if isinstance(keyword.value, ast.Constant):
                yield f"Limit at line {node.lineno}", keyword, "value"


def _literals(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield the plain numbers that a function compares, multiplies or divides with."""
    for node in ast.walk(function):
        where = f"{function.name}: {ast.unparse(node)}" if isinstance(node, ast.Compare | ast.BinOp) else ""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            yield from ((where, node, field) for field in ("left", "right") if _is_informative(getattr(node, field)))
        elif isinstance(node, ast.Compare):
            if _is_informative(node.left):
                yield where, node, "left"
            if len(node.comparators) == 1 and _is_informative(node.comparators[0]):
                yield where, node, "comparators"
        elif isinstance(node, ast.Call):
            yield from ((f"{function.name}: {ast.unparse(node)}", one, "value") for one in _arguments_of(node))


def _arguments_of(call: ast.Call) -> Iterator[ast.AST]:
    """Yield the holders of fractions that a call is given, wrapped so that they can be replaced."""
    for index, one in enumerate(call.args):
        if isinstance(one, ast.Constant) and isinstance(one.value, float) and _is_informative(one):
            call.args[index] = held = ast.NamedExpr(target=ast.Name("_", ast.Store()), value=one)
            yield held


def _is_informative(node: ast.AST) -> bool:
    number = isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return number and node.value not in PLAIN  # type: ignore[attr-defined]


def _moved(value: ast.expr, by: float) -> ast.expr:
    """Return a number a fifth away: a whole one stays whole, since many count things or are a slice's end."""
    if isinstance(value, ast.Constant) and isinstance(value.value, int):
        step = max(1, round(abs(by - 1) * value.value))
        return ast.Constant(value=value.value + (step if by > 1 else -step))
    return ast.BinOp(left=value, op=ast.Mult(), right=ast.Constant(value=by))


def _mutant(path: Path, index: int, name: str, by: float, *, inside: bool) -> Mutant:
    def broken(source: str) -> ast.Module:
        tree = ast.parse(source)
        _, holder, field = list(_numbers(tree, inside=inside))[index]
        held = getattr(holder, field)
        setattr(holder, field, [_moved(held[0], by)] if isinstance(held, list) else _moved(held, by))
        return tree

    return Mutant(path=path, what=f"{name} × {by:g}", broken=broken)


def named(folders: Sequence[str]) -> Iterator[tuple[Path, int, str, bool]]:
    """Yield every number of the folders' modules: module, its place there, its name, whether functions are read."""
    for folder in folders:
        for path in sorted((ROOT / "diagnostics" / folder).glob("*.py")):
            inside = folder in INSIDE
            for index, (name, _, _) in enumerate(_numbers(ast.parse(path.read_text()), inside=inside)):
                yield path, index, name, inside


def mutants(folders: Sequence[str]) -> Iterator[Mutant]:
    """Yield every move of the folders' numbers that is not exempt."""
    for path, index, name, inside in named(folders):
        for by in FACTORS:
            if by not in EXEMPT.get((str(path.relative_to(ROOT / "diagnostics")), name), ((), ""))[0]:
                yield _mutant(path, index, name, by, inside=inside)


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="how many processes at once")
    parser.add_argument("--list", action="store_true", help="list the moves, run nothing")
    parser.add_argument("what", nargs="*", help="folders, modules (checks/gates.py) or names; tests that judge")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Print the survivors and a total; return 1 when there are any."""
    chosen = _arguments(arguments)
    paths = [what for what in chosen.what if what.startswith("tests/")]
    parts = [what for what in chosen.what if what not in paths]
    everything = [one for one in mutants(tuple(JUDGES)) if not parts or any(part in str(one) for part in parts)]
    if chosen.list:
        print("\n".join(map(str, everything)))
        return 0
    unbroken = Mutant(path=ROOT / "none.py", what="nothing", broken=ast.parse)
    if not list(survivors([unbroken], paths or [test for tests in JUDGES.values() for test in tests], 1)):
        sys.exit("the tests fail although no number moved")
    count = 0
    for mutant in survivors(everything, paths, chosen.jobs):
        print(mutant, flush=True)
        count += 1
    print(f"{count} of {len(everything)} moves went unnoticed")
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
