"""The environment of the real server: a venv with the `nvidia-pytriton` wheel, found or made.

The wheel carries a complete `tritonserver` with the Python backend. It needs numpy < 2, which the product
itself does not, so it lives in an environment of its own.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from diagnostics.errors import CollectError, UsageError

WHEEL_VERSION = "0.7.0"
LOCATION_VARIABLE = "DIAG_TRITON_ENV"
# The wheel has Python backend stubs for 3.8 to 3.13, but numpy < 2 has no wheel for 3.13.
PYTHONS = ("3.12", "3.11", "3.10", "3.9", "3.8")
Progress = Callable[[str], None]

_PROBE = """
import json, os, sys, sysconfig
get = sysconfig.get_config_var
folders = [get("LIBDIR") or "", os.path.join(get("LIBDIR") or "", get("MULTIARCH") or ""),
           os.path.join(sys.base_prefix, "lib")]
name = "libpython%d.%d.so.1.0" % sys.version_info[:2]
print(json.dumps({"version": "%d.%d" % sys.version_info[:2], "site": sysconfig.get_path("purelib"),
                  "libpython": next((f for f in folders if os.path.exists(os.path.join(f, name))), None)}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonEnvironment:
    """Where the parts of a usable server are.

    Attributes:
        location: the venv.
        python: its interpreter, which also runs the models.
        python_version: that interpreter's version, as `3.11`.
        site_packages: where the wheel is installed.
        libpython: the folder of the interpreter's shared library, which the stub is linked to.

    """

    location: Path
    python: Path
    python_version: str
    site_packages: Path
    libpython: Path

    @property
    def tritonserver(self) -> Path:
        return self.site_packages / "pytriton/tritonserver/bin/tritonserver"

    @property
    def python_backend(self) -> Path:
        return self.site_packages / "pytriton/tritonserver/backends/python"

    @property
    def stub(self) -> Path:
        stubs = self.site_packages / "pytriton/tritonserver/python_backend_stubs"
        return stubs / self.python_version / "triton_python_backend_stub"

    @property
    def library_path(self) -> str:
        """The `LD_LIBRARY_PATH` that server and stub need; the interpreter's own library comes first."""
        return f"{self.libpython}:{self.site_packages / 'nvidia_pytriton.libs'}"


@cache
def reference_root() -> Path:
    """Return the folder of the reference deployment: beside this file in a wheel, else the checkout's.

    Raises:
        UsageError: it is in neither place.

    """
    here = Path(__file__).resolve()
    for folder in (here.parent / "reference", here.parents[2] / "fixtures" / "reference"):
        if (folder / "model_repository").is_dir():
            return folder
    raise UsageError("the reference deployment is missing from this installation", hint="reinstall triton-diagnostics")


def default_location() -> Path:
    """Return where an environment is made: under `$XDG_CACHE_HOME`, by default `~/.cache`."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache_home) / "triton-diagnostics" / f"triton-{WHEEL_VERSION}"


def find_environment(location: Path | None = None) -> TritonEnvironment | None:
    """Return the usable environment at `location`, else the one of `$DIAG_TRITON_ENV`, else the default one.

    Only the first of these that is given is looked at; None if there is nothing yet.

    Raises:
        UsageError: `$DIAG_TRITON_ENV` or `location` names a folder that exists but holds no usable server.

    """
    folder = _chosen(location)
    return _open(folder) if folder.exists() else None


def ensure_environment(location: Path | None = None, progress: Progress | None = None) -> TritonEnvironment:
    """Return the environment that `find_environment` finds, or make it there; a half-made one is never used.

    Args:
        location: where it is or shall be; see `find_environment`.
        progress: is called with a line for each step; by default they go to standard error.

    Raises:
        UsageError: this platform, or every Python on it, cannot run the server.
        CollectError: the packages cannot be fetched or installed.

    """
    found = find_environment(location)
    if found is not None:
        return found
    _require_platform(platform.system(), platform.machine())
    folder = _chosen(location)
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _build(partial, progress or _to_stderr)
        _publish(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return _open(folder)


def _chosen(location: Path | None) -> Path:
    named = os.environ.get(LOCATION_VARIABLE)
    return location or (Path(named).expanduser() if named else default_location())


def _open(folder: Path) -> TritonEnvironment:
    python = folder / "bin" / "python"
    try:
        probe = subprocess.run([python, "-I", "-c", _PROBE], capture_output=True, check=True, timeout=60)
        facts = json.loads(probe.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UsageError("is not a Python environment", where=str(folder), hint="remove it, it is made anew") from error
    if facts["libpython"] is None:
        raise UsageError(
            f"no shared libpython{facts['version']} belongs to this Python",
            where=str(python),
            hint=f"install libpython{facts['version']} or a Python that was built with --enable-shared",
        )
    environment = TritonEnvironment(
        location=folder,
        python=python,
        python_version=facts["version"],
        site_packages=Path(facts["site"]),
        libpython=Path(facts["libpython"]),
    )
    _require_parts(environment)
    return environment


def _require_parts(environment: TritonEnvironment) -> None:
    for part in (environment.tritonserver, environment.stub, environment.site_packages / "numpy"):
        if not part.exists():
            raise UsageError(
                f"has no {part.name}",
                where=str(environment.location),
                hint=f"install nvidia-pytriton=={WHEEL_VERSION} and 'numpy<2' there, or remove it",
            )


def _require_platform(system: str, machine: str) -> None:
    if (system, machine) != ("Linux", "x86_64"):
        raise UsageError(
            f"the server runs on Linux x86-64 only, this is {system} {machine}",
            hint="explain a capture instead, which needs no server",
        )


def base_python() -> Path:
    """Return an interpreter that the wheel and numpy < 2 support: this one if it can be, else one from PATH.

    Raises:
        UsageError: there is none.

    """
    if f"{sys.version_info.major}.{sys.version_info.minor}" in PYTHONS:
        return Path(sys.executable)
    for version in PYTHONS:
        found = shutil.which(f"python{version}")
        if found:
            return Path(found)
    raise UsageError("the server needs a Python from 3.8 to 3.12 and none was found", hint="install python3.12")


def _build(folder: Path, progress: Progress) -> None:
    progress(f"making the server's environment (about 60 MB to fetch, once): {folder.parent}")
    _run([base_python(), "-m", "venv", "--clear", folder], progress)
    pip: list[str | Path] = [
        folder / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
    ]
    pip += ["--only-binary=:all:", "--progress-bar=off"]
    # The wheel also names a client and a command line, which the server itself does not need.
    _run([*pip, "--no-deps", f"nvidia-pytriton=={WHEEL_VERSION}"], progress)
    _run([*pip, "numpy<2"], progress)


def _run(command: list[str | Path], progress: Progress) -> None:
    """Run one step, pass on what it says, and turn a failure into its last error line."""
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())
            if line.startswith(("Collecting", "Downloading", "Installing")):
                progress(line.strip())
    if process.returncode:
        errors = [line for line in lines if "error" in line.lower()] or lines or ["no output"]
        raise CollectError(
            f"the server's environment cannot be made: {errors[-1][:200]}",
            hint=f"check the network and pip, or set {LOCATION_VARIABLE} to an environment made elsewhere",
        )


def _publish(partial: Path, folder: Path) -> None:
    try:
        partial.rename(folder)
    except OSError:
        # Another process finished first; its environment is as good as this one.
        if not folder.exists():
            raise


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201
