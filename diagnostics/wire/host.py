"""One sample of the machine a server runs on: CPU time, pressure, throttling, the server's processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from diagnostics.wire.json_body import JsonFields, decode_object, number

MICROSECONDS = 1e-6
KIBIBYTE = 1024.0
USUAL_TICKS = 100.0
"""`sysconf(_SC_CLK_TCK)` on every Linux of the last twenty years, for samples that do not say."""
MOST_THREADS = 2**22
"""The most that Linux can number (proc_sys_kernel(5), `pid_max`)."""
IDLE_STATES = frozenset({"idle", "iowait"})
COUNTED_ELSEWHERE = frozenset({"guest", "guest_nice"})
"""Linux already counts these in `user` and `nice` (proc(5))."""
_KIBIBYTES = re.compile(r"\s*([0-9]{1,18})\s*kB\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProcess:
    """One process of the server's tree; `command` is the kernel's name of at most 15 characters.

    `run_delay_seconds` is the time its threads were runnable without a processor; `model` is the model that a Python
    stub runs. Of its `thread_count` threads, `io_threads` waited for I/O in that instant (state D), and
    `stopped_threads` were stopped by a signal or a debugger. Each is None where the recorder did not note it.
    """

    pid: int
    ppid: int | None = None
    command: str = ""
    cpu_seconds: float | None = None
    rss_bytes: float | None = None
    run_delay_seconds: float | None = None
    thread_count: int | None = None
    io_threads: int | None = None
    stopped_threads: int | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostThread:
    """One thread of the server's own process: seconds on a processor, and runnable without one, since it began."""

    tid: int
    cpu_seconds: float
    run_delay_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """The machine at one instant. Every number is None where the machine gives none.

    Attributes:
        at: Unix seconds.
        cores: processors of the machine.
        cpu_busy_seconds: CPU time in use since boot, over all cores: all but idle and iowait. Steal is busy:
            the core was wanted.
        cpu_total_seconds: CPU time since boot, over all cores.
        cpu_steal_seconds: CPU time that the hypervisor gave to others.
        pressure_seconds: time since boot in which some task waited for a CPU (PSI, `cpu some total`).
        io_pressure_seconds: time since boot in which some task waited for I/O (PSI, `io some total`): of the server's
            cgroup, else of the machine.
        throttled_seconds: time for which the server's cgroup was held back by its quota.
        throttled_periods: scheduling periods in which that happened.
        periods: scheduling periods in which the cgroup ran.
        quota_cores: the cgroup's CPU limit in cores; None is no limit.
        cgroup_seconds: CPU time that the server's cgroup has used.
        server_cores: processors that the server's process may run on; None when not recorded.
        memory_total_bytes: memory of the machine.
        memory_available_bytes: memory that can be had without swapping.
        server_pid: the server's process id.
        processes: the server's process tree, in the sample's order.
        threads: the threads of the server's own process that have used a second of a processor or more; None where
            the recorder did not note them.

    """

    at: float | None
    cores: int | None = None
    cpu_busy_seconds: float | None = None
    cpu_total_seconds: float | None = None
    cpu_steal_seconds: float | None = None
    pressure_seconds: float | None = None
    io_pressure_seconds: float | None = None
    throttled_seconds: float | None = None
    throttled_periods: float | None = None
    periods: float | None = None
    quota_cores: float | None = None
    cgroup_seconds: float | None = None
    server_cores: int | None = None
    memory_total_bytes: float | None = None
    memory_available_bytes: float | None = None
    server_pid: int | None = None
    processes: tuple[HostProcess, ...] = ()
    threads: tuple[HostThread, ...] | None = None


def parse_host(body: bytes) -> HostSample:
    """Return the sample in `body`.

    Sources: proc(5) for CPU time, Linux `Documentation/accounting/psi.rst` and `cgroup-v2.rst`.

    Raises:
        MalformedBody: it is no JSON object, or a part of it has the wrong type.

    """
    fields = decode_object(body, "the host sample")
    busy, total, steal = _cpu_seconds(fields)
    throttling = _flat_keyed(fields.text("cgroup_cpu_stat"))
    throttled, used = throttling.get("throttled_usec"), throttling.get("usage_usec")
    return HostSample(
        at=number(fields.raw("t")),
        cores=_whole(fields.raw("cores")),
        cpu_busy_seconds=busy,
        cpu_total_seconds=total,
        cpu_steal_seconds=steal,
        pressure_seconds=_pressure(fields.text("pressure_cpu")),
        io_pressure_seconds=_pressure(fields.text("cgroup_pressure_io") or fields.text("pressure_io")),
        throttled_seconds=None if throttled is None else throttled * MICROSECONDS,
        throttled_periods=throttling.get("nr_throttled"),
        periods=throttling.get("nr_periods"),
        cgroup_seconds=None if used is None else used * MICROSECONDS,
        server_cores=_whole(fields.raw("server_cores")),
        quota_cores=_quota(fields.text("cgroup_cpu_max")),
        memory_total_bytes=_kibibytes(fields.child("meminfo").raw("MemTotal")),
        memory_available_bytes=_kibibytes(fields.child("meminfo").raw("MemAvailable")),
        server_pid=_whole(fields.raw("server_pid")),
        processes=tuple(_process(process) for process in fields.children("server_processes")),
        threads=_threads(fields),
    )


def _cpu_seconds(fields: JsonFields) -> tuple[float | None, float | None, float | None]:
    ticks = number(fields.raw("clk_tck")) or USUAL_TICKS
    states = {state: number(value) for state, value in fields.child("cpu_jiffies").items()}
    times = {state: value / ticks for state, value in states.items() if value is not None}
    own = {state: seconds for state, seconds in times.items() if state not in COUNTED_ELSEWHERE}
    if not own:
        return None, None, None
    busy = sum(seconds for state, seconds in own.items() if state not in IDLE_STATES)
    return busy, sum(own.values()), own.get("steal")


def _pressure(text: str) -> float | None:
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "some":
            total = number(rest.rpartition("total=")[2])
            return None if total is None else total * MICROSECONDS
    return None


def _flat_keyed(text: str) -> Mapping[str, float]:
    pairs = (line.split() for line in text.splitlines())
    found = {pair[0]: number(pair[1]) for pair in pairs if len(pair) == 2}
    return {key: value for key, value in found.items() if value is not None}


def _quota(text: str) -> float | None:
    """Return cores of `cpu.max` ("200000 100000" is 2); None for "max"."""
    quota, _, period = text.strip().partition(" ")
    allowed, per = number(quota), number(period)
    return allowed / per if allowed is not None and per else None


def _kibibytes(value: object) -> float | None:
    match = _KIBIBYTES.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) * KIBIBYTE if match else None


def _whole(value: object) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def _threads_of(value: object) -> int | None:
    """Return a number of threads; None for what no kernel has."""
    found = _whole(value)
    return found if found is not None and 0 <= found <= MOST_THREADS else None


def _process(fields: JsonFields) -> HostProcess:
    return HostProcess(
        pid=fields.integer("pid"),
        ppid=_whole(fields.raw("ppid")),
        command=fields.text("comm"),
        cpu_seconds=number(fields.raw("cpu_seconds")),
        rss_bytes=number(fields.raw("rss_bytes")),
        run_delay_seconds=number(fields.raw("run_delay_seconds")),
        thread_count=_threads_of(fields.raw("thread_count")),
        io_threads=_threads_of(fields.raw("io_threads")),
        stopped_threads=_threads_of(fields.raw("stopped_threads")),
        model=fields.text("model") or None,
    )


def _threads(fields: JsonFields) -> tuple[HostThread, ...] | None:
    if fields.raw("server_threads") is None:
        return None
    return tuple(_thread(thread) for thread in fields.children("server_threads"))


def _thread(fields: JsonFields) -> HostThread:
    return HostThread(
        tid=fields.integer("tid"),
        cpu_seconds=number(fields.raw("cpu_seconds")) or 0.0,
        run_delay_seconds=number(fields.raw("run_delay_seconds")) or 0.0,
    )
