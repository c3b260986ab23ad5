"""GPM: how busy the parts of a GPU were between two samples. Hopper and later; of MIG instances too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporters.sources.nvml_query import Questions

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
