from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

from diagnostics import signals
from diagnostics.signals.signal import Signal
from tests.repository.source import CORE, PRODUCT, ROOT, called, imported, modules

_OUTSIDE = {
    "urllib3", "urllib.request", "http", "socket", "ssl", "select", "selectors", "asyncio", "subprocess",
    "multiprocessing", "signal", "sqlite3", "tempfile", "shutil", "glob", "logging", "click", "requests", "httpx",
    "grpc", "tritonclient", "pynvml", "psutil", "exporters", "diagnostics.cli", "diagnostics.demo",
}  # fmt: skip
_CLOCKS = {
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.sleep",
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
}  # fmt: skip
_FILES = {"open", "print", "input", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink"}
# Captures are files: these read and write them, and nothing else of the core does.
_CAPTURES = ("diagnostics/wire/archive.py", "diagnostics/wire/capture")


@cache
def core() -> dict[str, ast.Module]:
    return modules(*(f"diagnostics/{layer}" for layer in CORE))


def without_files() -> dict[str, ast.Module]:
    return {path: tree for path, tree in core().items() if not path.startswith(_CAPTURES)}


def test_imports_point_one_way() -> None:
    program = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_of_the_product_has_its_place_among_the_layers() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    placed = {name.strip() for layer in contract["layers"] for name in layer.split("|")}
    packages = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for folder in ("diagnostics", "exporters")
        for path in (ROOT / folder).glob("*/__init__.py")
    }
    assert packages <= placed


def test_the_core_imports_nothing_that_reaches_outside() -> None:
    names = {(path, name) for path, tree in without_files().items() for name in imported(tree)}
    assert not [one for one in names if any(f"{one[1]}.".startswith(f"{banned}.") for banned in _OUTSIDE)]


def test_the_core_takes_its_clock_as_an_argument() -> None:
    calls = {(path, call) for path, tree in core().items() for call in called(tree)}
    assert not [one for one in calls if any(f".{one[1]}".endswith(f".{clock}") for clock in _CLOCKS)]
    assert not [(path, name) for path, tree in core().items() for name in imported(tree) if name in _CLOCKS]


def test_the_core_opens_no_files_but_captures() -> None:
    calls = {(path, call) for path, tree in without_files().items() for call in called(tree)}
    own = [one for one in calls if not one[1].startswith("resources.files(__package__)")]
    assert not [one for one in own if one[1].rpartition(".")[2] in _FILES]


def test_the_core_is_found() -> None:
    assert len(core()) > 50
    assert {path.split("/")[1] for path in core()} == set(CORE)


def test_every_signal_is_read_by_someone() -> None:
    families = (import_module(f"{signals.__name__}.{entry.name}") for entry in pkgutil.iter_modules(signals.__path__))
    made = {name for family in families for name, value in vars(family).items() if isinstance(value, Signal)}
    nodes = [node for tree in modules(*PRODUCT).values() for node in ast.walk(tree)]
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert len(made) > 100
    unread = made - read - {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    assert not unread, "let a check or another signal read them, or leave them out"
