from __future__ import annotations

import ast
import re
import statistics

from tests.repository.source import PRODUCT, ROOT, functions, length, modules, texts

LONGEST_FUNCTION = 45
MEDIAN_FUNCTION = 8
# A module holds one idea, 100 to 500 lines as a rule, and is never split for a number: beyond this it holds two ideas.
LONGEST_MODULE = 800

# What is read, and what releases export besides.
SPELLING = ("diagnostics/names.py", "diagnostics/lint/metrics.py")
_METRIC = re.compile(r"\bnv_[a-z]+_\w+")


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = {(path, one.name): length(one) for path, tree in modules(*PRODUCT).items() for one in functions(tree)}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}


def test_most_functions_are_a_few_lines() -> None:
    assert (
        statistics.median(length(one) for tree in modules(*PRODUCT).values() for one in functions(tree))
        <= MEDIAN_FUNCTION
    )


def test_no_module_is_longer_than_can_be_read_at_once() -> None:
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path in modules(*PRODUCT)}
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_MODULE} == {}


def test_a_metrics_name_is_spelled_where_names_are_listed_only() -> None:
    spelled = {path: names_in(tree) for path, tree in modules(*PRODUCT).items() if path not in SPELLING}
    assert {path: names for path, names in spelled.items() if names} == {}


def test_a_metrics_name_is_spelled_in_one_list() -> None:
    listed = [names_in(modules(*PRODUCT)[path]) for path in SPELLING]
    assert all(listed)
    assert not set.intersection(*listed)


def names_in(tree: ast.Module) -> set[str]:
    """Return the texts with a metric's name, those aside that rules are tried with: they stand for users' files."""
    cases = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CASES"]
    tried = {id(node) for case in cases for node in ast.walk(case)}
    return {text.value for text in texts(tree) if _METRIC.search(text.value) and id(text) not in tried}


def test_every_module_says_what_it_is() -> None:
    trees = {path: tree for path, tree in modules(*PRODUCT).items() if (ROOT / path).stat().st_size}
    assert [path for path, tree in trees.items() if not ast.get_docstring(tree)] == []


def test_no_two_modules_of_tests_have_one_name() -> None:
    """Outside a package pytest knows a module by its file's name alone, and collects none of two."""
    loose = [path for path in (ROOT / "tests").rglob("test_*.py") if not (path.parent / "__init__.py").exists()]
    names = [path.name for path in loose]
    assert names
    assert sorted(names) == sorted(set(names))
