from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from source import CORE, PRODUCT, ROOT, called, imported, modules

from diagnostics import signals
from diagnostics.signals.signal import Signal

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

CORE_MODULES = modules(*(f"diagnostics/{layer}" for layer in CORE))
WITHOUT_FILES = [path for path in CORE_MODULES if not path.startswith(_CAPTURES)]


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


@pytest.mark.parametrize("path", WITHOUT_FILES)
def test_the_core_imports_nothing_that_reaches_outside(path: str) -> None:
    names = set(imported(CORE_MODULES[path]))
    assert not {name for name in names if any(f"{name}.".startswith(f"{banned}.") for banned in _OUTSIDE)}


@pytest.mark.parametrize("path", CORE_MODULES)
def test_the_core_takes_its_clock_as_an_argument(path: str) -> None:
    calls = set(called(CORE_MODULES[path]))
    names = set(imported(CORE_MODULES[path]))
    assert not {call for call in calls if any(f".{call}".endswith(f".{clock}") for clock in _CLOCKS)}
    assert not names & _CLOCKS


@pytest.mark.parametrize("path", WITHOUT_FILES)
def test_the_core_opens_no_files_but_captures(path: str) -> None:
    calls = {call for call in called(CORE_MODULES[path]) if not call.startswith("resources.files(__package__)")}
    assert not {call.rpartition(".")[2] for call in calls} & _FILES


def test_the_core_is_found() -> None:
    assert len(CORE_MODULES) > 50
    assert {path.split("/")[1] for path in CORE_MODULES} == set(CORE)


def test_every_signal_is_read_by_someone() -> None:
    families = (import_module(f"{signals.__name__}.{entry.name}") for entry in pkgutil.iter_modules(signals.__path__))
    made = {name for family in families for name, value in vars(family).items() if isinstance(value, Signal)}
    nodes = [node for tree in modules(*PRODUCT).values() for node in ast.walk(tree)]
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert len(made) > 100
    assert not made - read - {node.attr for node in nodes if isinstance(node, ast.Attribute)}
