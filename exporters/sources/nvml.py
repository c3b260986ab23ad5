"""The machine's GPUs, as the capture format's `nvml` bodies hold them. Needs the extra `gpu` and a driver."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable
from typing import Any

from diagnostics.wire.records import Kind, Scrape

Json = dict[str, object]
# The keys of a body's `gpm`, and NVML's numbers of these metrics (nvml.h, nvmlGpmMetricId_t).
_GPM = {
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


class NvmlSampler:
    """Samples the GPUs of this machine. Keeps one GPM sample per GPU: GPM tells what happened between two."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._kept: dict[int, Any] = {}
        self._since = int(time.time() * 1e6)

    @classmethod
    def open(cls) -> NvmlSampler | None:
        """Return a sampler; None without the extra `gpu` or without a driver."""
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return None
        try:
            nvml.nvmlInit()
        except nvml.NVMLError:
            return None
        return cls(nvml)

    def sample(self) -> Scrape:
        """Return one sample of every GPU; what card, driver or rights withhold is null in the body."""
        begun, at = time.monotonic(), time.time()
        body: Json = {"t": at, "driver_version": self._try(self._nvml.nvmlSystemGetDriverVersion)}
        body["gpus"] = [self._gpu(index) for index in range(self._try(self._nvml.nvmlDeviceGetCount) or 0)]
        self._since = int(at * 1e6)
        took = time.monotonic() - begun
        return Scrape(server="", kind=Kind.NVML, at=at, mono=begun, took=took, body=json.dumps(body).encode())

    def close(self) -> None:
        """Give the driver back what was taken."""
        for kept in self._kept.values():
            self._try(self._nvml.nvmlGpmSampleFree, kept)
        self._kept.clear()
        self._try(self._nvml.nvmlShutdown)

    def _try(self, call: Callable[..., Any], *arguments: object) -> Any:
        # Every query can be refused on its own: by an old card, by MIG, by a container's rights.
        try:
            value = call(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None
        return value.decode() if isinstance(value, bytes) else value

    def _gpu(self, index: int) -> Json:
        nvml = self._nvml
        handle = self._try(nvml.nvmlDeviceGetHandleByIndex, index)
        if handle is None:
            return {"index": index}
        return {
            "index": index,
            "uuid": self._try(nvml.nvmlDeviceGetUUID, handle),
            "name": self._try(nvml.nvmlDeviceGetName, handle),
            **self._load(handle),
            **self._limits(handle),
            "processes": self._processes(handle),
            "process_utilization": self._process_utilization(handle),
            "gpm": self._gpm(index, handle),
        }

    def _load(self, handle: Any) -> Json:
        nvml = self._nvml
        utilization = self._try(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._try(nvml.nvmlDeviceGetMemoryInfo, handle)
        return {
            "utilization_gpu_percent": getattr(utilization, "gpu", None),
            "utilization_memory_percent": getattr(utilization, "memory", None),
            "memory_total_bytes": getattr(memory, "total", None),
            "memory_used_bytes": getattr(memory, "used", None),
            "power_mw": self._try(nvml.nvmlDeviceGetPowerUsage, handle),
            "total_energy_mj": self._try(nvml.nvmlDeviceGetTotalEnergyConsumption, handle),
        }

    def _limits(self, handle: Any) -> Json:
        nvml = self._nvml
        mig = self._try(nvml.nvmlDeviceGetMigMode, handle)
        return {
            "power_limit_mw": self._try(nvml.nvmlDeviceGetEnforcedPowerLimit, handle),
            "temperature_c": self._try(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            "sm_clock_mhz": self._try(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "max_sm_clock_mhz": self._try(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
            "throttle_reasons": self._try(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle),
            "mig_mode": mig[0] if mig else None,
        }

    def _processes(self, handle: Any) -> list[Json] | None:
        found = self._try(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        if found is None:
            return None
        return [{"pid": one.pid, "used_memory_bytes": one.usedGpuMemory} for one in found]

    def _process_utilization(self, handle: Any) -> list[Json] | None:
        try:
            found = self._nvml.nvmlDeviceGetProcessUtilization(handle, self._since)
        except self._nvml.NVMLError_NotFound:
            # No process ran since the last sample: that is an answer.
            return []
        except self._nvml.NVMLError:
            return None
        latest = {one.pid: one for one in sorted(found, key=lambda one: one.timeStamp) if one.pid}
        return [{"pid": pid, "sm_percent": one.smUtil, "mem_percent": one.memUtil} for pid, one in latest.items()]

    def _gpm(self, index: int, handle: Any) -> Json | None:
        nvml = self._nvml
        support = self._try(nvml.nvmlGpmQueryDeviceSupport, handle)
        if support is None or not support.isSupportedDevice:
            return None
        sample = self._try(nvml.nvmlGpmSampleAlloc)
        if sample is None or self._try(nvml.nvmlGpmSampleGet, handle, sample) is None:
            return None
        earlier = self._kept.get(index)
        self._kept[index] = sample
        if earlier is None:
            return None
        values = self._between(earlier, sample)
        self._try(nvml.nvmlGpmSampleFree, earlier)
        return values

    def _between(self, earlier: Any, later: Any) -> Json | None:
        query = self._nvml.c_nvmlGpmMetricsGet_t()
        query.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        query.numMetrics, query.sample1, query.sample2 = len(_GPM), earlier, later
        for place, metric in enumerate(_GPM.values()):
            query.metrics[place].metricId = metric
        if self._try(self._nvml.nvmlGpmMetricsGet, query) is None:
            return None
        answers = zip(_GPM, query.metrics, strict=False)
        return {name: None if metric.nvmlReturn else metric.value for name, metric in answers}
