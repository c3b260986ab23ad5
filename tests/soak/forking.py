"""Many `diag serve`s for the price of one start: each is a process of its own, forked from one that has loaded it all.

A process that was forked is killed, ended and measured like any other; what it does not show is the start of Python.
The time of day of all of them can be set; their steady clocks go on.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.soak.running import ROOT, Serving, environment, until


class Forked:
    """A process as `subprocess.Popen` would show it."""

    def __init__(self, pid: int, forks: Forks) -> None:
        self.pid, self._forks = pid, forks
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            self._code = self._forks.ask(look=self.pid)
        return self._code

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < deadline, f"it did not end in {timeout:g} s"
            time.sleep(0.01)
        assert self._code is not None
        return self._code

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)


class Forks:
    """The process that all are forked from."""

    def __init__(self, program: subprocess.Popen[str], clock: Path) -> None:
        self._program, self._clock = program, clock

    def set_clock(self, ahead: float) -> None:
        """Let the time of day be so many seconds ahead of what it is."""
        with self._clock.open("r+b") as file:
            file.write(struct.pack("d", ahead))

    def ask(self, **order: Any) -> Any:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps(order) + "\n")
        self._program.stdin.flush()
        return json.loads(self._program.stdout.readline())

    @contextlib.contextmanager
    def serving(self, settings: Path, *, patience: float = 20.0) -> Iterator[Serving]:
        """Do as `running.serving` does."""
        address = tomllib.loads(settings.read_text())["web"]["listen_address"]
        log = settings.with_suffix(".log")
        process = Forked(self.ask(serve=str(settings), log=str(log)), self)
        one = Serving(process, f"http://{address}", log)  # type: ignore[arg-type]
        try:
            until(one.ready, patience, "readiness")
            yield one
        finally:
            if process.poll() is None:
                one.kill()


@contextlib.contextmanager
def forks() -> Iterator[Forks]:
    with (
        tempfile.NamedTemporaryFile() as clock,
        subprocess.Popen(
            [sys.executable, "-m", "tests.soak.forking", clock.name],
            env=environment(),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as program,
    ):
        made = Forks(program, Path(clock.name))
        made.set_clock(0.0)
        yield made
        assert program.stdin is not None
        program.stdin.close()


def _child(order: dict[str, str]) -> None:
    from diagnostics.cli.main import main

    nowhere, log = os.open(os.devnull, os.O_RDONLY), os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number, target in ((nowhere, 0), (log, 1), (log, 2)):
        os.dup2(number, target)
    sys.argv = ["diag", "serve", "--config.file", order["serve"]]
    code = 70
    try:
        code = main()
    finally:
        os._exit(code)


def _look(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _set_by(clock: Path) -> None:
    """Let the time of day follow what `set_clock` writes; to be called before others take hold of `time.time`."""
    while clock.stat().st_size < 8:
        time.sleep(0.01)
    with clock.open("rb") as file:
        ahead, real = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ), time.time
    time.time = lambda: real() + float(struct.unpack("d", ahead[:])[0])


def _run() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        if "look" in order:
            print(json.dumps(_look(order["look"])), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _child(order)
        print(pid, flush=True)


if __name__ == "__main__":
    _set_by(Path(sys.argv[1]))
    import diagnostics.cli.serve
    import diagnostics.service.http.server
    import diagnostics.service.running  # noqa: F401

    _run()
