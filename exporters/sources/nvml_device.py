"""Questions to NVML: each can be refused on its own, and each costs processor time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
# What no later query of the same kind will change: the card, the driver or its setup does not have it.
_FOR_GOOD = frozenset({"Not Supported", "Function Not Found", "unknown to this pynvml"})
# Share of one core that each of the dear queries may take of a card; one that costs more is made less often: on an
# H100 energy each three minutes, processes' utilization, GPM and processes each 5 or 6 s. Measured there (driver 580),
# once a second: energy 3.6 ms (as a field value too), processes' utilization 1.5 ms, GPM
# 1.4 ms, processes 0.22 ms, MIG mode 0.2 ms. All others take 0.2 ms together, so they are made each time, one by one:
# nvmlDeviceGetFieldValues would save 0.01 ms, and lose the reason of each refusal.
_SHARES: Mapping[str, float] = {
    "process_utilization": 0.00025,
    "gpm": 0.00025,
    "mig_instances": 0.0005,
    "processes": 0.00004,
    "health": 0.00002,
    "total_energy_mj": 0.00002,
    "layout": 0.00001,
}


class QueryBudget:
    """Says which queries are due: one that took t seconds of processor time rests for t ÷ its share of a core."""

    def __init__(self, now: Callable[[], float] = time.monotonic, used: Callable[[], float] = time.thread_time) -> None:
        self._now, self._used = now, used
        self._due: dict[str, float] = {}

    def at_once(self, key: str) -> None:
        """Make the query due: something happened that it would show."""
        self._due.pop(key, None)

    def spend(self, key: str, call: Callable[[], T]) -> T | None:
        """Return what the call returns; None while it rests."""
        if self._now() < self._due.get(key, 0.0):
            return None
        before = self._used()
        try:
            return call()
        finally:
            # A tenth of slack: a sample that comes a little early is not worth a whole interval.
            self._due[key] = self._now() + 0.9 * (self._used() - before) / _SHARES[key]


class Questions:
    """Asks NVML about one card or one part of it, and keeps why an answer is missing.

    Attributes:
        nvml: the library.
        errors: why an answer is missing in this sample, by the key of the answer.

    """

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.errors: dict[str, str] = {}
        self._refused: dict[str, str] = {}

    def begin(self) -> None:
        """Begin a sample: what was refused for good stays refused."""
        self.errors = dict(self._refused)

    def ask(self, key: str, query: str, *arguments: object) -> Any:
        """Return the answer, bytes as text; None when it is refused: by an old card, by MIG, for want of rights."""
        if key in self._refused:
            return None
        call: Callable[..., Any] | None = getattr(self.nvml, query, None)
        if call is None:
            self.refuse(key, "unknown to this pynvml")
            return None
        try:
            value = call(*arguments)
        except self.nvml.NVMLError as error:
            self.refuse(key, str(error))
            return None
        except UnicodeDecodeError:  # of pynvml itself, which decodes what the driver calls a card
            self.refuse(key, "is no text")
            return None
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def refuse(self, key: str, reason: str) -> None:
        """Note why the answer is missing; a reason that will not change is the last time it is asked."""
        self.errors[key] = reason
        if reason in _FOR_GOOD:
            self._refused[key] = reason


_PROC = Path("/proc")
# The kernel's fixed inode number of the first process namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO). NVML
# numbers processes as that namespace does: a name looked up from another one would be somebody else's.
_FIRST_NAMESPACE = "pid:[4026531836]"


class ProcessNames:
    """Names of processes, each looked up once while it is there."""

    def __init__(self) -> None:
        self._known: dict[int, str | None] = {}
        self._visible = _sees_all_processes()

    def listed(self, found: Sequence[Any]) -> list[dict[str, object]]:
        """Return NVML's list as a body holds it; what is no longer in it is forgotten."""
        if self._visible:
            self._known = {one.pid: self._known.get(one.pid) or _name_of(one.pid) for one in found}
        return [self._process(one.pid, one.usedGpuMemory) for one in found]

    def _process(self, pid: int, memory: int | None) -> dict[str, object]:
        process: dict[str, object] = {"pid": pid, "used_memory_bytes": memory}
        name = self._known.get(pid)
        return {**process, "name": name} if name else process


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


class Gpm:
    """Keeps one sample, for the next to be compared with."""

    def __init__(self, questions: Questions, card: Any, instance: int | None = None) -> None:
        """Measure the card, or one of its MIG instances by its GPU instance id."""
        self._ask, self._nvml = questions.ask, questions.nvml
        self._card, self._instance = card, instance
        self._kept: Any = None
        self._supported: bool | None = None

    def read(self) -> dict[str, object] | None:
        """Return percent and MiB/s since the last call, None where a metric is withheld; None the first time."""
        if self._supported is None:
            support = self._ask("gpm", "nvmlGpmQueryDeviceSupport", self._card)
            self._supported = bool(support and support.isSupportedDevice)
        sample = self._take() if self._supported else None
        if sample is None:
            return None
        earlier, self._kept = self._kept, sample
        if earlier is None:
            return None
        values = self._between(earlier, sample)
        self._ask("gpm", "nvmlGpmSampleFree", earlier)
        return values

    def close(self) -> None:
        """Give the driver back what was taken."""
        if self._kept is not None:
            self._ask("gpm", "nvmlGpmSampleFree", self._kept)
        self._kept = None

    def _take(self) -> Any:
        sample = self._ask("gpm", "nvmlGpmSampleAlloc")
        if sample is None:
            return None
        if self._instance is None:
            taken = self._ask("gpm", "nvmlGpmSampleGet", self._card, sample)
        else:
            taken = self._ask("gpm", "nvmlGpmMigSampleGet", self._card, self._instance, sample)
        if taken is None:
            self._ask("gpm", "nvmlGpmSampleFree", sample)
            return None
        return sample

    def _between(self, earlier: Any, later: Any) -> dict[str, object] | None:
        query = self._nvml.c_nvmlGpmMetricsGet_t()
        query.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        query.numMetrics, query.sample1, query.sample2 = len(GPM), earlier, later
        for place, metric in enumerate(GPM.values()):
            query.metrics[place].metricId = metric
        if self._ask("gpm", "nvmlGpmMetricsGet", query) is None:
            return None
        answers = zip(GPM, query.metrics, strict=False)
        return {name: None if metric.nvmlReturn else metric.value for name, metric in answers}


Json = dict[str, object]
NOT_MIG = "not measured while the card is divided (MIG): see its instances"


class MigInstance:
    """One compute instance of a divided GPU."""

    def __init__(self, nvml: Any, card: Any, handle: Any) -> None:
        self._questions = Questions(nvml)
        self._ask = self._questions.ask
        self._handle, self._names = handle, ProcessNames()
        instance = self._ask("gpu_instance", "nvmlDeviceGetGpuInstanceId", handle)
        self._fixed: Json = {
            "uuid": self._ask("uuid", "nvmlDeviceGetUUID", handle),
            "name": self._ask("name", "nvmlDeviceGetName", handle),
            "gpu_instance": instance,
            "compute_instance": self._ask("compute_instance", "nvmlDeviceGetComputeInstanceId", handle),
        }
        self._gpm = None if instance is None else Gpm(self._questions, card, instance)

    @property
    def uuid(self) -> object:
        """The name that CUDA knows it by; None when it is withheld."""
        return self._fixed["uuid"]

    def sample(self) -> Json:
        """Return what the instance says now."""
        self._questions.begin()
        memory = self._ask("memory_used_bytes", "nvmlDeviceGetMemoryInfo", self._handle)
        found = self._ask("processes", "nvmlDeviceGetComputeRunningProcesses", self._handle)
        body = {
            **self._fixed,
            "memory_total_bytes": getattr(memory, "total", None),
            "memory_used_bytes": getattr(memory, "used", None),
            "processes": None if found is None else self._names.listed(found),
            "gpm": self._gpm.read() if self._gpm else None,
        }
        return {**body, "errors": self._questions.errors} if self._questions.errors else body

    def close(self) -> None:
        """Give the driver back what was taken."""
        if self._gpm:
            self._gpm.close()


def mig_instances(questions: Questions, card: Any, known: list[MigInstance]) -> list[MigInstance]:
    """Return the instances that the card has now, those of `known` that are still there among them."""
    most = questions.ask("mig_instances", "nvmlDeviceGetMaxMigDeviceCount", card) or 0
    handles = [_handle(questions, card, place) for place in range(most)]
    now = [MigInstance(questions.nvml, card, handle) for handle in handles if handle is not None]
    kept = {one.uuid: one for one in known if one.uuid is not None}
    found = [kept.pop(one.uuid, one) for one in now]
    for gone in [one for one in known if one not in found]:
        gone.close()
    return found


def _handle(questions: Questions, card: Any, place: int) -> Any:
    try:
        return questions.nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, place)
    except questions.nvml.NVMLError:
        return None  # a place without an instance, as most are


# A storm of errors says no more after the first few.
_MOST_XIDS = 16


class NvmlDevice:
    """One GPU. Keeps what does not change, and one GPM sample: GPM reports what happened between two.

    Every answer that is withheld is None, with its reason in the sample's `errors`, by the key of the answer. What is
    None without a reason was not asked this time: it is dear, and rests.
    """

    def __init__(self, nvml: Any, index: int, budget: QueryBudget | None = None) -> None:
        self._nvml, self._index = nvml, index
        self._budget = budget or QueryBudget()
        self._questions = Questions(nvml)
        self._ask = self._questions.ask
        self._since = int(time.time() * 1e6)
        self._handle: Any = None
        self._running: set[int] = set()
        self._names = ProcessNames()
        self._fixed: Json = {}
        self._instances: list[MigInstance] = []
        self._gpm: Gpm | None = None
        self._events: Any = None

    def sample(self) -> Json:
        """Return what the card says now."""
        self._questions.begin()
        errors = self._questions.errors
        if self._handle is None and not self._open():
            return {"index": self._index, "errors": errors}
        self._budget.spend("layout", self._read_layout)
        body = {
            "index": self._index,
            **self._fixed,
            **self._load(),
            **self._limits(),
            **(self._budget.spend("health", self._health) or {}),
            "xids": self._xids(),
            **(self._of_instances() if self._fixed["mig_mode"] else self._activity()),
        }
        return {**body, "errors": errors} if errors else body

    def close(self) -> None:
        """Give the driver back what was taken."""
        for part in (self._gpm, *self._instances):
            if part is not None:
                part.close()
        if self._events is not None:
            self._ask("xids", "nvmlEventSetFree", self._events)
        self._events = None

    def _open(self) -> bool:
        self._handle = self._ask("handle", "nvmlDeviceGetHandleByIndex", self._index)
        if self._handle is None:
            return False
        handle, nvml = self._handle, self._nvml
        self._fixed = {
            "uuid": self._ask("uuid", "nvmlDeviceGetUUID", handle),
            "name": self._ask("name", "nvmlDeviceGetName", handle),
            "mig_mode": None,
            "max_sm_clock_mhz": self._ask("max_sm_clock_mhz", "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
            "power_default_limit_mw": self._ask(
                "power_default_limit_mw", "nvmlDeviceGetPowerManagementDefaultLimit", handle
            ),
        }
        self._gpm = Gpm(self._questions, handle)
        self._events = self._listen()
        return True

    def _read_layout(self) -> None:
        # Instances come and go while others work, so both are asked again now and then.
        mode = self._ask("mig_mode", "nvmlDeviceGetMigMode", self._handle)
        self._fixed["mig_mode"] = mode[0] if mode else None
        if (mode and mode[0]) or self._instances:
            self._instances = mig_instances(self._questions, self._handle, self._instances)

    def _listen(self) -> Any:
        events = self._ask("xids", "nvmlEventSetCreate")
        if events is None:
            return None
        kind = getattr(self._nvml, "nvmlEventTypeXidCriticalError", None)
        self._ask("xids", "nvmlDeviceRegisterEvents", self._handle, kind, events)
        return events

    def _load(self) -> Json:
        handle = self._handle
        utilization = self._ask("utilization_gpu_percent", "nvmlDeviceGetUtilizationRates", handle)
        memory = self._ask("memory_used_bytes", "nvmlDeviceGetMemoryInfo", handle)
        energy = partial(self._ask, "total_energy_mj", "nvmlDeviceGetTotalEnergyConsumption", handle)
        return {
            "utilization_gpu_percent": getattr(utilization, "gpu", None),
            "utilization_memory_percent": getattr(utilization, "memory", None),
            "memory_total_bytes": getattr(memory, "total", None),
            "memory_used_bytes": getattr(memory, "used", None),
            "power_mw": self._ask("power_mw", "nvmlDeviceGetPowerUsage", handle),
            "total_energy_mj": self._budget.spend("total_energy_mj", energy),
        }

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

    def _activity(self) -> Json:
        """Return who works on a card that is not divided, and how busy it is."""
        return {
            "processes": self._budget.spend("processes", self._processes),
            "process_utilization": self._budget.spend("process_utilization", self._process_utilization),
            "gpm": self._budget.spend("gpm", self._gpm.read) if self._gpm else None,
        }

    def _of_instances(self) -> Json:
        """Return the same for each instance of a divided card, which has none of its own."""
        self._questions.errors.update(dict.fromkeys(("process_utilization", "gpm"), NOT_MIG))
        sampled = self._budget.spend("mig_instances", lambda: [one.sample() for one in self._instances])
        return {"processes": None, "process_utilization": None, "gpm": None, "mig_instances": sampled}

    def _xids(self) -> list[int] | None:
        """Return the codes of the errors since the last sample; None where the driver does not report them."""
        if self._events is None or "xids" in self._questions.errors:
            return None
        found: list[int] = []
        while len(found) < _MOST_XIDS:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError as error:
                if type(error).__name__ != "NVMLError_Timeout":
                    self._questions.refuse("xids", str(error))
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
            self._budget.at_once("process_utilization")
        return self._names.listed(found)

    def _process_utilization(self) -> list[Json] | None:
        since, self._since = self._since, int(time.time() * 1e6)
        try:
            found = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, since)
        except self._nvml.NVMLError_NotFound:
            # No process ran since the last sample: that is an answer.
            return []
        except self._nvml.NVMLError as error:
            self._questions.refuse("process_utilization", str(error))
            return None
        latest = {one.pid: one for one in sorted(found, key=lambda one: one.timeStamp) if one.pid}
        return [{"pid": pid, "sm_percent": one.smUtil, "mem_percent": one.memUtil} for pid, one in latest.items()]
