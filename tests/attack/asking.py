"""Asks for `/healthz` ten times a second until its input ends: `python -m tests.attack.asking URL PID`.

In a process of its own: the threads of an attack would keep one beside them from asking. Time for which the service or
this process waited for a processor is not counted: the machine may be busy with the attack itself, or with other tests.
Nor is a connection that was ended while this process waited for one: under a flood, those whose headers do not come are
ended first.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import ssl
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

PATIENCE = 30.0
PAUSE = 0.1
LATE = 0.01
"""Seconds after which headers that have not come are late under a flood of 20,000 connections a second."""


def requested(url: str) -> str:
    """Return the first line of the answer to one request."""
    where = urlsplit(url)
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(socket.create_connection((where.hostname, where.port), PATIENCE))
        if where.scheme == "https":
            one = stack.enter_context(ssl._create_unverified_context().wrap_socket(one))
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        answer = b""
        while part := one.recv(4096):
            answer += part
    return answer.partition(b"\r\n")[0].decode()


def starved(pid: int) -> float:
    """Return seconds for which the threads of a process were ready and had no processor (proc(5), schedstat)."""
    waited = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            waited += int((task / "schedstat").read_text().split()[1])
    return waited / 1e9


def main(url: str, pid: int) -> None:
    """Print the seconds of the slowest answer, how many there were, and what went wrong."""
    slowest, answers, failed = 0.0, 0, []
    while not select.select([sys.stdin], [], [], PAUSE)[0]:
        begun, before, own = time.monotonic(), starved(pid), starved(os.getpid())
        try:
            line = requested(url)
        except OSError as error:
            if isinstance(error, ConnectionError) and starved(os.getpid()) - own > LATE:
                continue
            line = repr(error)
        took, waited = time.monotonic() - begun, starved(pid) - before + starved(os.getpid()) - own
        slowest = max(slowest, took - waited)
        answers += 1
        if "200" not in line:
            failed.append(f"after {took:.2f} s: {line or 'nothing'}")
    print(json.dumps({"slowest": slowest, "answers": answers, "failed": failed}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
