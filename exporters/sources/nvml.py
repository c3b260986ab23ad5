"""The machine's GPUs, as the capture format's `nvml` bodies hold them. Needs the extra `gpu` and a driver."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import msgspec

from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.nvml_device import Json, NvmlDevice, QueryBudget
from exporters.sources.parallel import DeadlineExecutor
from exporters.sources.schedule import CLOCK

# A healthy card answers all queries within milliseconds; one that hangs (a reset, a lost card) may take minutes.
DEVICE_TIMEOUT = 1.0
_LATE: Json = {"device": f"no answer within {DEVICE_TIMEOUT:g} s"}


class NvmlSampler:
    """Samples the GPUs of this machine. A card that hangs holds back no other, and is asked apart from then on.

    Measured at one sample a second (driver 580, two H200 under load): 1.1 ms of processor time a sample for one card,
    1.7 ms for both: a hundredth of a core is enough for eight.
    """

    def __init__(
        self, nvml: Any, timeout: float = DEVICE_TIMEOUT, budget: Callable[[], QueryBudget] = QueryBudget
    ) -> None:
        self._nvml = nvml
        self._executor: DeadlineExecutor[object, None] = DeadlineExecutor(timeout)
        self._version = self._driver()
        self._devices = {index: NvmlDevice(nvml, index, budget()) for index in range(self._count())}
        self._slow: set[int] = set()
        self._groups = count()
        self._group: object = next(self._groups)

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

    @property
    def cards(self) -> int:
        """How many GPUs are sampled."""
        return len(self._devices)

    def only(self, cards: int) -> None:
        """Sample no more than the first so many GPUs."""
        self._devices = {index: self._devices[index] for index in list(self._devices)[:cards]}

    def sample(self) -> Scrape:
        """Return one sample of every GPU; what card, driver or rights withhold is null in the body."""
        begun, at = time.monotonic(), CLOCK.now()
        answers = self._answers()
        gpus = [answers.get(index) or {"index": index, "errors": _LATE} for index in self._devices]
        body: Json = {"t": at, "driver_version": self._version, "gpus": gpus}
        took = time.monotonic() - begun
        return Scrape(server="", kind=BodyKind.NVML, at=at, mono=begun, took=took, body=msgspec.json.encode(body))

    def close(self) -> None:
        """Give the driver back what was taken, as far as the cards still answer."""
        healthy = [device for index, device in self._devices.items() if index not in self._slow]
        self._executor.run({self._group: lambda: _close_all(healthy)})
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            return  # nothing is left to give back

    def _answers(self) -> dict[int, Json]:
        """Return what the cards said by index; one that was late is left out.

        Cards that answer in time are asked one after another by one thread: a thread a card costs more than its
        queries.
        """
        answers: dict[int, Json] = {}
        waiting, apart = [index for index in self._devices if index not in self._slow], set(self._slow)
        while waiting or apart:
            closings: dict[object, Callable[[], None]] = {f"card {i}": self._ask(answers, [i]) for i in apart}
            if waiting:
                closings[self._group] = self._ask(answers, waiting, self._group)
            outcomes = self._executor.run(closings)
            self._slow -= answers.keys()
            if not waiting or outcomes[self._group].failure is None:
                break
            left = [index for index in waiting if index not in answers]
            self._slow |= set(left[:1])
            waiting = left[1:]
            self._group, apart = next(self._groups), set()
        return answers

    def _ask(self, answers: dict[int, Json], indices: Sequence[int], group: object = None) -> Callable[[], None]:
        def read() -> None:
            for index in indices:
                # A thread that was given up goes no further when its card answers at last.
                if group is None or group == self._group:
                    answers[index] = self._devices[index].sample()

        return read

    def _count(self) -> int:
        try:
            return int(self._nvml.nvmlDeviceGetCount())
        except self._nvml.NVMLError:
            return 0

    def _driver(self) -> str | None:
        try:
            version = self._nvml.nvmlSystemGetDriverVersion()
        except (self._nvml.NVMLError, UnicodeDecodeError):
            return None
        return version.decode(errors="replace") if isinstance(version, bytes) else str(version)


def _close_all(devices: Sequence[NvmlDevice]) -> None:
    for device in devices:
        device.close()
