"""Runs one server for a launcher, and cleans up after both. Standard library only; started by path.

The launcher holds the other end of standard input: when that closes, because the launcher is done or dead,
the server and everything it started are ended and removed. The launcher reads two lines from standard
output: the server's process id at once, its exit status once it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STEP = 0.05
_libc = ctypes.CDLL(None)


def main() -> None:
    task = json.loads(sys.stdin.buffer.readline())
    # A terminal's Ctrl-C is the launcher's business; it reaches this process as the end of its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    server = _start(task)
    try:
        _say(server.pid)
        status = _until_end(server)
        if status is not None:
            _end_group(server, task["grace"])
            _say(status)
            while not _launcher_gone(60.0):
                pass
    finally:
        _end_group(server, task["grace"])
        _remove(task)


def _start(task: dict[str, Any]) -> subprocess.Popen[bytes]:
    with Path(task["log"]).open("ab") as log:
        return subprocess.Popen(
            task["command"],
            env=task["environment"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            preexec_fn=_die_with_parent,
        )


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _say(number: int) -> None:
    # A launcher that is gone gets no signal; the end of input covers that.
    with contextlib.suppress(OSError):
        os.write(1, f"{number}\n".encode())


def _until_end(server: subprocess.Popen[bytes]) -> int | None:
    """Return the server's exit status when it ends by itself, None when the launcher is done."""
    while not _launcher_gone(_STEP):
        if server.poll() is not None:
            return server.returncode
    return None


def _launcher_gone(timeout: float) -> bool:
    ready, _, _ = select.select([0], [], [], timeout)
    return bool(ready) and os.read(0, 1) == b""


def _end_group(server: subprocess.Popen[bytes], grace: float) -> None:
    """End the server and all it started: asked first, after `grace` seconds by force."""
    if server.poll() is None:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(grace)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    _reap_orphans(time.monotonic() + 5.0)


def _reap_orphans(deadline: float) -> None:
    """Collect what the server left behind; as its subreaper this process is the orphans' parent."""
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                time.sleep(_STEP)


def _remove(task: dict[str, Any]) -> None:
    for region in Path("/dev/shm").glob(f"{task['shm_prefix']}*"):  # noqa: S108
        region.unlink(missing_ok=True)
    shutil.rmtree(task["folder"], ignore_errors=True)


if __name__ == "__main__":
    main()
