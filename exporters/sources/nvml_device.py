"""One GPU through NVML: every query on its own, with its reason where it is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Json = dict[str, object]
# The keys of a body's `gpm`, and NVML's numbers of these metrics (nvml.h, nvmlGpmMetricId_t).
GPM: Mapping[str, int] = {
    "graphics_util": 1,
    "sm_util": 2,
    "sm_occupancy": 3,
    "tensor_util": 5,
    "dram_bw_util": 10,
    "fp32_util": 12,
    "fp16_util": 13,
    "pcie_tx_per_sec_mib": 20,
    "pcie_rx_per_sec_mib": 21,
}
# What no later query of the same kind will change: the card, the driver or its setup does not have it.
_FOR_GOOD = frozenset({"Not Supported", "Function Not Found", "unknown to this pynvml"})
# Share of one core that each of the dear queries may take of a card; one that costs more is made less often. Together
# they stay below a twentieth of 1 %. Measured on an H100 (driver 580): energy 4 ms, processes' utilization 2.3 ms, GPM
# 1.6 ms, all others below 0.2 ms.
_SHARES: Mapping[str, float] = {
    "process_utilization": 0.0002,
    "gpm": 0.0002,
    "health": 0.00005,
    "total_energy_mj": 0.00002,
}
# A short look may cost more than one that goes on for days: it has few samples to tell from.
_SHORT_LOOK_SECONDS = 60.0
_SHORT_LOOK_TIMES = 5.0
_PROC = Path("/proc")
# The kernel's fixed inode number of the first process namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO). NVML
# numbers processes as that namespace does: a name looked up from another one would be somebody else's.
_FIRST_NAMESPACE = "pid:[4026531836]"


class Budget:
    """Says which queries are due: one that took t seconds of processor time rests for t ÷ its share of a core."""

    def __init__(self, now: Callable[[], float] = time.monotonic, used: Callable[[], float] = time.thread_time) -> None:
        self._now, self._used = now, used
        self._due: dict[str, float] = {}
        self._begun = now()

    def at_once(self, key: str) -> None:
        """Make the query due: something happened that it tells of."""
        self._due.pop(key, None)

    def spend(self, key: str, call: Callable[[], T]) -> T | None:
        """Return what the call returns; None while it rests."""
        if self._now() < self._due.get(key, 0.0):
            return None
        before = self._used()
        try:
            return call()
        finally:
            now = self._now()
            times = _SHORT_LOOK_TIMES if now - self._begun < _SHORT_LOOK_SECONDS else 1.0
            # A tenth of slack: a sample that comes a little early is not worth a whole interval.
            self._due[key] = now + 0.9 * (self._used() - before) / (_SHARES[key] * times)


class NvmlDevice:
    """One GPU. Keeps what does not change, and one GPM sample: GPM tells what happened between two.

    Every answer that is withheld is None, with its reason in the sample's `errors`, by the key of the answer.
    """

    def __init__(self, nvml: Any, index: int, budget: Budget | None = None) -> None:
        self._nvml = nvml
        self._budget = budget or Budget()
        self._index = index
        self._since = int(time.time() * 1e6)
        self._refused: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        self._handle: Any = None
        self._running: set[int] = set()
        self._names: dict[int, str | None] = {}
        self._fixed: Json = {}
        self._gpm_sample: Any = None
        self._has_gpm: bool | None = None
        self._events: Any = None
        self._named = _sees_all_processes()

    def sample(self) -> Json:
        """Return what the card says now."""
        self._errors = dict(self._refused)
        if self._handle is None and not self._open():
            return {"index": self._index, "errors": self._errors}
        body = {
            "index": self._index,
            **self._fixed,
            **self._load(),
            **self._limits(),
            **(self._budget.spend("health", self._health) or {}),
            "xids": self._xids(),
            "processes": self._processes(),
            "process_utilization": self._budget.spend("process_utilization", self._process_utilization),
            "gpm": self._budget.spend("gpm", self._gpm),
        }
        return {**body, "errors": self._errors} if self._errors else body

    def close(self) -> None:
        """Give the driver back what was taken."""
        if self._gpm_sample is not None:
            self._ask("gpm", "nvmlGpmSampleFree", self._gpm_sample)
        if self._events is not None:
            self._ask("xids", "nvmlEventSetFree", self._events)
        self._gpm_sample = self._events = None

    def _open(self) -> bool:
        self._handle = self._ask("handle", "nvmlDeviceGetHandleByIndex", self._index)
        if self._handle is None:
            return False
        handle, nvml = self._handle, self._nvml
        self._fixed = {
            "uuid": self._ask("uuid", "nvmlDeviceGetUUID", handle),
            "name": self._ask("name", "nvmlDeviceGetName", handle),
            # MIG is switched only while the card is not in use.
            "mig_mode": self._mig(),
            "max_sm_clock_mhz": self._ask("max_sm_clock_mhz", "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
            "power_default_limit_mw": self._ask(
                "power_default_limit_mw", "nvmlDeviceGetPowerManagementDefaultLimit", handle
            ),
        }
        self._events = self._listen()
        return True

    def _mig(self) -> int | None:
        mode = self._ask("mig_mode", "nvmlDeviceGetMigMode", self._handle)
        return mode[0] if mode else None

    def _listen(self) -> Any:
        events = self._ask("xids", "nvmlEventSetCreate")
        if events is None:
            return None
        kind = getattr(self._nvml, "nvmlEventTypeXidCriticalError", None)
        self._ask("xids", "nvmlDeviceRegisterEvents", self._handle, kind, events)
        return events

    def _ask(self, key: str, query: str, *arguments: object) -> Any:
        # Every query can be refused on its own: by an old card, by MIG, by a container's rights.
        if key in self._refused:
            return None
        call: Callable[..., Any] | None = getattr(self._nvml, query, None)
        if call is None:
            self._refuse(key, "unknown to this pynvml")
            return None
        try:
            value = call(*arguments)
        except self._nvml.NVMLError as error:
            self._refuse(key, str(error))
            return None
        return value.decode() if isinstance(value, bytes) else value

    def _refuse(self, key: str, reason: str) -> None:
        self._errors[key] = reason
        if reason in _FOR_GOOD:
            self._refused[key] = reason

    def _load(self) -> Json:
        handle = self._handle
        utilization = self._ask("utilization_gpu_percent", "nvmlDeviceGetUtilizationRates", handle)
        memory = self._ask("memory_used_bytes", "nvmlDeviceGetMemoryInfo", handle)
        return {
            "utilization_gpu_percent": getattr(utilization, "gpu", None),
            "utilization_memory_percent": getattr(utilization, "memory", None),
            "memory_total_bytes": getattr(memory, "total", None),
            "memory_used_bytes": getattr(memory, "used", None),
            "power_mw": self._ask("power_mw", "nvmlDeviceGetPowerUsage", handle),
            "total_energy_mj": self._energy(),
        }

    def _energy(self) -> int | None:
        query = partial(self._ask, "total_energy_mj", "nvmlDeviceGetTotalEnergyConsumption", self._handle)
        return self._budget.spend("total_energy_mj", query)

    def _limits(self) -> Json:
        handle, nvml = self._handle, self._nvml
        return {
            "power_limit_mw": self._ask("power_limit_mw", "nvmlDeviceGetEnforcedPowerLimit", handle),
            "sm_clock_mhz": self._ask("sm_clock_mhz", "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
            # Renamed to …ClocksEventReasons in driver 535; both names answer until CUDA 14.
            "throttle_reasons": self._ask("throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", handle),
        }

    def _health(self) -> Json:
        handle, nvml = self._handle, self._nvml
        kinds = (getattr(nvml, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", 1), getattr(nvml, "NVML_VOLATILE_ECC", 0))
        rows = self._ask("remapped_rows", "nvmlDeviceGetRemappedRows", handle)
        return {
            "temperature_c": self._ask("temperature_c", "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            "ecc_uncorrected": self._ask("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", handle, *kinds),
            "remapped_rows": None
            if rows is None
            else {"uncorrected": rows[1], "pending": bool(rows[2]), "failure": bool(rows[3])},
        }

    def _xids(self) -> list[int] | None:
        """Return the codes of the errors since the last sample; None where the driver does not tell."""
        if self._events is None or "xids" in self._errors:
            return None
        found: list[int] = []
        # A storm of errors says no more after the first few.
        while len(found) < 16:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError as error:
                if type(error).__name__ != "NVMLError_Timeout":
                    self._refuse("xids", str(error))
                    return found or None
                return found
            found.append(int(event.eventData))
        return found

    def _processes(self) -> list[Json] | None:
        found = self._ask("processes", "nvmlDeviceGetComputeRunningProcesses", self._handle)
        if found is None:
            return None
        if (running := {one.pid for one in found}) != self._running:
            self._running = running
            self._names = {pid: name for pid, name in self._names.items() if pid in running}
            self._budget.at_once("process_utilization")
        return [self._process(one.pid, one.usedGpuMemory) for one in found]

    def _process(self, pid: int, memory: int | None) -> Json:
        process: Json = {"pid": pid, "used_memory_bytes": memory}
        if self._named and pid not in self._names:
            self._names[pid] = _name_of(pid)
        name = self._names.get(pid)
        return {**process, "name": name} if name else process

    def _process_utilization(self) -> list[Json] | None:
        since, self._since = self._since, int(time.time() * 1e6)
        try:
            found = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, since)
        except self._nvml.NVMLError_NotFound:
            # No process ran since the last sample: that is an answer.
            return []
        except self._nvml.NVMLError as error:
            self._refuse("process_utilization", str(error))
            return None
        latest = {one.pid: one for one in sorted(found, key=lambda one: one.timeStamp) if one.pid}
        return [{"pid": pid, "sm_percent": one.smUtil, "mem_percent": one.memUtil} for pid, one in latest.items()]

    def _gpm(self) -> Json | None:
        if self._has_gpm is None:
            support = self._ask("gpm", "nvmlGpmQueryDeviceSupport", self._handle)
            self._has_gpm = bool(support and support.isSupportedDevice)
        if not self._has_gpm:
            return None
        sample = self._ask("gpm", "nvmlGpmSampleAlloc")
        if sample is None:
            return None
        if self._ask("gpm", "nvmlGpmSampleGet", self._handle, sample) is None:
            self._ask("gpm", "nvmlGpmSampleFree", sample)
            return None
        earlier, self._gpm_sample = self._gpm_sample, sample
        if earlier is None:
            return None
        values = self._between(earlier, sample)
        self._ask("gpm", "nvmlGpmSampleFree", earlier)
        return values

    def _between(self, earlier: Any, later: Any) -> Json | None:
        query = self._nvml.c_nvmlGpmMetricsGet_t()
        query.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        query.numMetrics, query.sample1, query.sample2 = len(GPM), earlier, later
        for place, metric in enumerate(GPM.values()):
            query.metrics[place].metricId = metric
        if self._ask("gpm", "nvmlGpmMetricsGet", query) is None:
            return None
        answers = zip(GPM, query.metrics, strict=False)
        return {name: None if metric.nvmlReturn else metric.value for name, metric in answers}


def _sees_all_processes() -> bool:
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _FIRST_NAMESPACE
    except OSError:
        return False


def _name_of(pid: int) -> str | None:
    try:
        return (_PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
