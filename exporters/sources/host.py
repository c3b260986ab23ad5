"""Finds the process of a server that runs on this machine, through Linux' /proc; elsewhere finds none."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.schedule import CLOCK

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


CGROUP = Path("/sys/fs/cgroup")
# The columns of the first line of /proc/stat, proc(5); guest time is already in `user`.
_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_MEMORY = ("MemTotal", "MemFree", "MemAvailable")
# A thread that never used a second of a processor limits nothing; of idle ones a server has hundreds.
_LEAST_CPU_SECONDS = 1.0
Json = dict[str, object]


def sample_host(server: str, server_pid: int | None) -> Scrape | None:
    """Return one sample of this machine: processors, CPU time, pressure, throttling, the server's processes.

    Args:
        server: name of the server the sample belongs to.
        server_pid: its process here.

    Returns:
        None when there is no such process here; a part that the kernel does not give is null in the body.

    """
    if server_pid is None or not (PROC / str(server_pid)).exists():
        return None
    begun, at = time.monotonic(), CLOCK.now()
    body = json.dumps(_sample(at, server_pid)).encode()
    now = time.monotonic()
    return Scrape(server=server, kind=BodyKind.HOST, at=at, mono=begun, took=now - begun, body=body)


def _sample(at: float, pid: int) -> Json:
    return {
        "t": at,
        "cores": os.cpu_count(),
        "server_cores": _allowed(pid),
        "cpu_jiffies": _jiffies(),
        "clk_tck": os.sysconf("SC_CLK_TCK"),
        "loadavg": (_proc_text(PROC / "loadavg") or "").split()[:3],
        "pressure_cpu": _proc_text(PROC / "pressure" / "cpu"),
        "pressure_io": _proc_text(PROC / "pressure" / "io"),
        "cgroup_pressure_io": _proc_text(_cgroup(pid) / "io.pressure"),
        "cgroup_cpu_stat": _proc_text(_cgroup(pid) / "cpu.stat"),
        "cgroup_cpu_max": _proc_text(_cgroup(pid) / "cpu.max"),
        "meminfo": _meminfo(),
        "server_pid": pid,
        "server_processes": _tree(pid),
        "server_threads": _threads(PROC / str(pid)),
    }


def _allowed(pid: int) -> int | None:
    """Return how many processors the process may run on: fewer than the machine's under a cpuset."""
    try:
        return len(os.sched_getaffinity(pid))
    except (AttributeError, OSError):
        return None


def _jiffies() -> Json:
    fields = (_proc_text(PROC / "stat") or "").partition("\n")[0].split()[1:]
    return {state: int(value) for state, value in zip(_STATES, fields, strict=False)}


def _meminfo() -> Json:
    lines = (line.partition(":") for line in (_proc_text(PROC / "meminfo") or "").splitlines())
    return {name: value for name, _, value in lines if name in _MEMORY}


def _cgroup(pid: int) -> Path:
    # Version 2 has one hierarchy, listed as `0::/path`; version 1 leaves this folder without the files.
    lines = (_proc_text(PROC / str(pid) / "cgroup") or "").splitlines()
    path = next((line[3:] for line in lines if line.startswith("0::")), "/")
    return CGROUP / path.lstrip("/")


def _tree(root: int) -> list[Json]:
    """Return the process `root` and all that descend from it."""
    found = [process for entry in PROC.glob("[0-9]*") if (process := _process(entry))]
    children: dict[object, list[Json]] = {}
    for process in found:
        children.setdefault(process["ppid"], []).append(process)
    tree = [process for process in found if process["pid"] == root]
    for parent in tree:
        tree.extend(children.get(parent["pid"], []))
    return [_details(process) for process in tree]


def _process(entry: Path) -> Json | None:
    # The name stands in brackets and may hold any character, brackets included: split after the last one.
    head, _, tail = (_proc_text(entry / "stat") or "").rpartition(")")
    fields = tail.split()
    if len(fields) < 22:
        return None
    ticks = int(fields[11]) + int(fields[12])
    return {
        "pid": int(entry.name),
        "ppid": int(fields[1]),
        "comm": head.partition("(")[2],
        "cpu_seconds": ticks / os.sysconf("SC_CLK_TCK"),
        "rss_bytes": int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
    }


def _details(process: Json) -> Json:
    """Add what only the server's own processes are asked for: waits for processors and disks, and whose stub it is."""
    entry = PROC / str(process["pid"])
    states = [state for task in entry.glob("task/*/stat") if (state := _state(task))]
    return {
        **process,
        "run_delay_seconds": _run_delay(entry),
        "thread_count": len(states) or None,
        "io_threads": states.count("D") if states else None,
        "stopped_threads": states.count("T") + states.count("t") if states else None,
        "model": _model(entry),
    }


def _state(stat: Path) -> str:
    """Return a thread's state by proc(5): `D` waits for I/O and cannot be interrupted, `T` and `t` are stopped."""
    return (_proc_text(stat) or "").rpartition(")")[2].strip()[:1]


def _run_delay(entry: Path) -> float | None:
    delays = [delay for _, _, delay in _scheduled(entry)]
    return sum(delays) if delays else None


def _threads(entry: Path) -> list[Json]:
    """Return the threads of one process that have used a processor for more than a moment."""
    return [
        {"tid": tid, "cpu_seconds": used, "run_delay_seconds": delay}
        for tid, used, delay in sorted(_scheduled(entry))
        if used >= _LEAST_CPU_SECONDS
    ]


def _scheduled(entry: Path) -> Iterator[tuple[int, float, float]]:
    """Yield (thread, seconds on a processor, seconds runnable without one) of a process's threads."""
    # The first two fields of schedstat, in nanoseconds (Documentation/scheduler/sched-stats.rst).
    for task in entry.glob("task/*/schedstat"):
        fields = (_proc_text(task) or "").split()
        if len(fields) >= 2:
            yield int(task.parent.name), int(fields[0]) / 1e9, int(fields[1]) / 1e9


def _model(entry: Path) -> str | None:
    """Return the model that a Python backend's stub runs: its first argument is <repository>/<model>/<version>/*.py."""
    arguments = (_proc_text(entry / "cmdline") or "").split("\0")
    if len(arguments) < 2 or not arguments[0].endswith("triton_python_backend_stub"):
        return None
    path = Path(arguments[1])
    return path.parts[-3] if len(path.parts) >= 3 and path.parts[-2].isdigit() else None


def _proc_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
