"""Loopback ports of a server: free ones, and whether a process really listens on its own."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

HOST = "127.0.0.1"
_LISTEN = "0A"
# gRPC opens IPv4 addresses as mapped IPv6 ones.
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The three loopback ports of a server."""

    http: int
    grpc: int
    metrics: int

    @classmethod
    def free(cls) -> Self:
        """Return three ports that nobody listens on right now; another process may still take one."""
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
            for each in sockets:
                each.bind((HOST, 0))
            http, grpc, metrics = (each.getsockname()[1] for each in sockets)
        return cls(http=http, grpc=grpc, metrics=metrics)

    def held_by(self, pid: int, arguments: Sequence[str] = ()) -> bool:
        """Return whether the process listens on all that its arguments do not switch off; false also if it is gone."""
        offered = {"http": self.http, "grpc": self.grpc, "metrics": self.metrics}
        wanted = {port for role, port in offered.items() if f"--allow-{role}=false" not in arguments}
        return wanted <= _listened(pid)


def _listened(pid: int) -> set[int]:
    # /proc/net/tcp: sl local_address rem_address st … uid timeout inode (proc_pid_net(5)).
    sockets = _sockets(pid)
    rows = [line.split() for table in _TABLES if table.exists() for line in table.read_text("ascii").splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTEN and row[9] in sockets}


def _sockets(pid: int) -> set[str]:
    inodes = set()
    with contextlib.suppress(FileNotFoundError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                inodes.add(str(entry.readlink()).removeprefix("socket:[").removesuffix("]"))
    return inodes
