"""What `diag serve` exports of the machine of a server beside which it runs: one family per field of a host sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.wire.host import HostProcess, HostSample

HOST_READ = "diag_host_read_timestamp_seconds"
HOST_LABELS = ("server",)
PROCESS_LABELS = ("server", "pid", "command", "process_model")
# A server has a process, and one for each instance of a Python model.
MOST_PROCESSES = 128
_TOTAL = "_total"


@dataclass(frozen=True, slots=True)
class Exported:
    """A field of a sample as a metric; one whose name ends in `_total` is a counter."""

    name: str
    help: str

    @property
    def counter(self) -> bool:
        return self.name.endswith(_TOTAL)


HOST: Mapping[str, Exported] = {
    "cores": Exported("diag_host_cores", "Processors of the machine."),
    "cpu_busy_seconds": Exported("diag_host_cpu_busy_seconds_total", "Processor time in use, steal included."),
    "cpu_total_seconds": Exported("diag_host_cpu_seconds_total", "Processor time, idle or not."),
    "cpu_steal_seconds": Exported("diag_host_cpu_steal_seconds_total", "Processor time the hypervisor gave away."),
    "pressure_seconds": Exported("diag_host_cpu_pressure_seconds_total", "Time in which some task waited for one."),
    "memory_total_bytes": Exported("diag_host_memory_total_bytes", "Memory of the machine."),
    "memory_available_bytes": Exported("diag_host_memory_available_bytes", "Memory to be had without swapping."),
    "throttled_seconds": Exported("diag_server_throttled_seconds_total", "Time the server's quota held it back."),
    "throttled_periods": Exported("diag_server_throttled_periods_total", "Scheduling periods in which it did."),
    "periods": Exported("diag_server_scheduling_periods_total", "Scheduling periods of the server's cgroup."),
    "quota_cores": Exported("diag_server_quota_cores", "Processors that the server's quota allows."),
    "cgroup_seconds": Exported("diag_server_cgroup_cpu_seconds_total", "Processor time of the server's cgroup."),
    "server_cores": Exported("diag_server_cores", "Processors that the server may run on."),
    "server_pid": Exported("diag_server_process_id", "The server's process."),
}
PROCESS: Mapping[str, Exported] = {
    "cpu_seconds": Exported("diag_server_process_cpu_seconds_total", "Processor time of a process of the server."),
    "run_delay_seconds": Exported("diag_server_process_wait_seconds_total", "Time it was runnable without running."),
    "rss_bytes": Exported("diag_server_process_resident_bytes", "Its memory."),
}
FAMILIES = (HOST_READ, *(one.name for one in (*HOST.values(), *PROCESS.values())))
_HOST_FIELDS = {one.name: field for field, one in HOST.items()}
_PROCESS_FIELDS = {one.name: field for field, one in PROCESS.items()}
Reading = tuple[Mapping[str, str], float]


def host_values(sample: HostSample) -> Iterator[tuple[Exported, float]]:
    """Yield the numbers of a sample that the machine gave."""
    for field, family in HOST.items():
        if (value := getattr(sample, field)) is not None:
            yield family, float(value)


def process_values(server: str, sample: HostSample) -> Iterator[tuple[Exported, tuple[str, ...], float]]:
    """Yield what each process of the server used, with the values of `PROCESS_LABELS`."""
    for process in sample.processes[:MOST_PROCESSES]:
        labels = (server, str(process.pid), process.command, process.model or "")
        for field, family in PROCESS.items():
            if (value := getattr(process, field)) is not None:
                yield family, labels, float(value)


def sample_of(at: float, readings: Sequence[Reading]) -> HostSample:
    """Return the sample of Unix second `at` that these series (labels, values) tell of; what they lack is None."""
    numbers: dict[str, float] = {}
    processes: dict[tuple[int, str, str], dict[str, float]] = {}
    for labels, value in readings:
        name = labels.get("__name__", "")
        if name in _HOST_FIELDS:
            numbers[_HOST_FIELDS[name]] = value
        elif name in _PROCESS_FIELDS and labels.get("pid", "").isdecimal():
            key = int(labels["pid"]), labels.get("command", ""), labels.get("process_model", "")
            processes.setdefault(key, {})[_PROCESS_FIELDS[name]] = value
    return HostSample(
        at=at,
        cores=_integer(numbers.get("cores")),
        cpu_busy_seconds=numbers.get("cpu_busy_seconds"),
        cpu_total_seconds=numbers.get("cpu_total_seconds"),
        cpu_steal_seconds=numbers.get("cpu_steal_seconds"),
        pressure_seconds=numbers.get("pressure_seconds"),
        throttled_seconds=numbers.get("throttled_seconds"),
        throttled_periods=numbers.get("throttled_periods"),
        periods=numbers.get("periods"),
        quota_cores=numbers.get("quota_cores"),
        cgroup_seconds=numbers.get("cgroup_seconds"),
        server_cores=_integer(numbers.get("server_cores")),
        memory_total_bytes=numbers.get("memory_total_bytes"),
        memory_available_bytes=numbers.get("memory_available_bytes"),
        server_pid=_integer(numbers.get("server_pid")),
        processes=tuple(_process(*key, spent) for key, spent in sorted(processes.items())),
    )


def _process(pid: int, command: str, model: str, spent: Mapping[str, float]) -> HostProcess:
    return HostProcess(
        pid=pid,
        command=command,
        model=model or None,
        cpu_seconds=spent.get("cpu_seconds"),
        run_delay_seconds=spent.get("run_delay_seconds"),
        rss_bytes=spent.get("rss_bytes"),
    )


def _integer(value: float | None) -> int | None:
    return None if value is None else int(value)
