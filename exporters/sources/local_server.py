"""Finds the process of a server that runs on this machine, through Linux' /proc; elsewhere finds none."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

PROC = Path("/proc")
# The kernel's names of the states in /proc/net/tcp are hexadecimal; this one is TCP_LISTEN.
_LISTEN = "0A"
_COMMAND = "tritonserver"


def find_server(host: str, ports: Iterable[int]) -> int | None:
    """Return the process id of the `tritonserver` that listens here on one of `ports`.

    None when `host` is another machine, when none listens, or when this user may not see whose port it is (a
    server in a container with its own processes, or of another user).
    """
    if not is_this_machine(host):
        return None
    servers, wanted = list(_servers()), set(ports)
    if not servers:  # a table of thousands of connections need not be read
        return None
    inodes = {inode for port, inode in _listeners(PROC / "net") if port in wanted}
    return next((pid for pid in servers if inodes & _socket_inodes(pid)), None)


def listening_ports(pid: int) -> tuple[int, ...]:
    """Return the TCP ports that the process listens on, ascending; empty when that cannot be seen."""
    inodes = _socket_inodes(pid)
    return tuple(sorted({port for port, inode in _listeners(PROC / "net") if inode in inodes}))


def is_this_machine(host: str) -> bool:
    """Return whether `host` is a loopback address or another address of this machine."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return host == socket.gethostname()
    if address.is_loopback:
        return True
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        # Only an address of its own can be bound.
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return not address.is_unspecified


def _listeners(net: Path) -> Iterator[tuple[int, str]]:
    for table in ("tcp", "tcp6"):
        for line in _lines(net / table):
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN:
                yield int(fields[1].rpartition(":")[2], 16), fields[9]


def _lines(path: Path) -> Iterator[str]:
    # A busy machine has tens of thousands of connections: never all lines at once.
    with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as table:
        yield from table


def _servers() -> Iterator[int]:
    for entry in PROC.glob("[0-9]*"):
        if _text(entry / "comm").strip() == _COMMAND:
            yield int(entry.name)


def _socket_inodes(pid: int) -> set[str]:
    inodes = set()
    with contextlib.suppress(OSError):
        for link in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
    return inodes


def _text(path: Path) -> str:
    # A process may end between being listed and being read.
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
