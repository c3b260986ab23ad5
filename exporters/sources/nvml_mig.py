"""MIG: the instances that a GPU is divided into, each with memory, processes and activity of its own.

NVML gives no utilization and no processes' utilization of an instance, nor of a card that has some; on Hopper and
later GPM says how busy an instance is. CUDA and Triton know an instance by its UUID (`MIG-…`), DCGM by its GPU instance
id (`GPU_I_ID`).
"""

from __future__ import annotations

from typing import Any

from exporters.sources.nvml_gpm import Gpm
from exporters.sources.nvml_processes import ProcessNames
from exporters.sources.nvml_query import Questions

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
