"""One GPU through NVML: every query on its own, with its reason where it is refused."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from exporters.sources.nvml_gpm import Gpm
from exporters.sources.nvml_mig import NOT_MIG, MigInstance, mig_instances
from exporters.sources.nvml_processes import ProcessNames
from exporters.sources.nvml_query import QueryBudget, Questions

Json = dict[str, object]
# A storm of errors says no more after the first few.
_MOST_XIDS = 16


class NvmlDevice:
    """One GPU. Keeps what does not change, and one GPM sample: GPM tells what happened between two.

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
        """Return the codes of the errors since the last sample; None where the driver does not tell."""
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
