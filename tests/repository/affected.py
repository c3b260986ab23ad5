"""Which tests a change can break, the nearest first: `python -m tests.repository.affected`.

A test is as near to a changed module as there are imports between them. What git shows as changed since the branch left
main counts, and files named as arguments. `make quick` runs as many of the tests as its seconds allow.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.repository.deadline import SECONDS

ROOT = Path(__file__).parents[2]
FOLDERS = ("diagnostics", "exporters", "dashboards", "deploy", "docs", "tests")
# Hold for every change, in seconds; `make check` looks at style, types and layers.
ALWAYS = ("tests/repository/test_names.py", "tests/repository/test_prose.py")
# A check, a rule or a kind of server is found by walking its folder, so that nothing imports it.
WALKED: Mapping[str, tuple[str, ...]] = {
    "diagnostics/checks/": (
        *("tests/checks/test_contract.py", "tests/checks/test_limits.py", "tests/diagnosis/test_undecided.py"),
        "tests/incidents/test_incidents.py",
    ),
    "diagnostics/lint/rules/": ("tests/lint/test_rule_contract.py",),
    "diagnostics/wire/servers/": ("tests/collect/test_server_kinds.py", "tests/promql/test_other_servers.py"),
}
# Their tests start servers, browsers or clusters, take minutes, or measure time.
LEFT_OUT = (
    *("tests/attack/", "tests/bench/", "tests/browser/", "tests/soak/", "tests/stack/"),
    *("tests/checks/test_mutants.py", "tests/checks/test_new_check.py", "tests/repository/test_wheel.py"),
)
# Of a module that everything imports, these are the nearest; to collect more takes longer than to run them.
MOST_FILES, ENOUGH_SECONDS = 20, 25


def imports_of(path: Path, known: Mapping[str, str]) -> Iterator[str]:
    """Yield the files that a module imports, at its top or inside of functions."""
    own = (path.parent.relative_to(ROOT).as_posix().replace("/", ".") + ".") if path.is_relative_to(ROOT) else ""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            yield from (known[each] for each in (name, own + name) if each in known)


def importers() -> dict[str, set[str]]:
    """Return who imports each file of the repository."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    named = {path.relative_to(ROOT).as_posix(): path for path in paths}
    known = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in named}
    found: dict[str, set[str]] = {name: set() for name in named}
    for name, path in named.items():
        for other in imports_of(path, known):
            found[other].add(name)
    return found


def affected(changed: Iterable[str], imported_by: Mapping[str, set[str]]) -> list[str]:
    """Return the files of tests that may break, those nearest to a change first."""
    near = {name: 0 for name in changed if name in imported_by}
    waiting = list(near)
    for name in waiting:  # it grows meanwhile
        for importer in sorted(imported_by[name]):
            if importer not in near:
                near[importer] = near[name] + 1
                waiting.append(importer)
    for folder, tests in WALKED.items():
        if any(name.startswith(folder) for name in changed):
            near |= dict.fromkeys(tests, 0)
    near |= dict.fromkeys(ALWAYS, -1)
    tests = (name for name in near if name.rpartition("/")[2].startswith("test_") and not name.startswith(LEFT_OUT))
    return sorted(tests, key=lambda name: (near[name], name))[:MOST_FILES]


def changed_files() -> list[str]:
    """Return what differs from where the branch left main, with what is not committed and not tracked yet."""
    base = _git("merge-base", "HEAD", "main") or _git("rev-parse", "HEAD")
    listed = (_git("diff", "--name-only", base), _git("ls-files", "--others", "--exclude-standard"))
    return sorted({name for text in listed for name in text.splitlines()})


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tests, or run them for as long as there is time."""
    parser = argparse.ArgumentParser(prog="python -m tests.repository.affected")
    parser.add_argument("files", nargs="*", help="what changed; left out: what git shows")
    parser.add_argument("--run", action="store_true", help="run them")
    parser.add_argument("--seconds", type=float, default=ENOUGH_SECONDS, help="start no further test after so many")
    given = parser.parse_args(arguments)
    tests = affected(given.files or changed_files(), importers())
    if not given.run:
        print("\n".join(tests))
        return 0
    print(f"--- {len(tests)} files of tests, the nearest to the change first, for {given.seconds:g} s")
    options = ("-q", "-n", "2", "--dist", "loadfile", "-m", "not live and not alone and not attack")
    command = [sys.executable, "-m", "pytest", *options, "-p", "tests.repository.deadline", *tests]
    environment = {**os.environ, SECONDS: str(given.seconds)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
