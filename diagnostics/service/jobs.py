"""What is read again and again: a Triton, a dcgm-exporter's page, the machine the service runs on."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from diagnostics.diagnosis.explanation import BlindSpot
from diagnostics.errors import CollectError
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.access import SourceOptions
from exporters.sources.machine import Machine
from exporters.sources.nvml import NvmlSampler
from exporters.sources.repository import RepositoryFiles
from exporters.sources.triton import TritonServer, discover

# A server that is down is asked half as often after each failure, but at least once in eight intervals.
_DOUBLINGS = 3
# A change of a file takes effect with a load, which people start by hand; its folder may lie on a network.
FILES_EVERY = 15.0
LOST_AFTER = 5


class Reader(Protocol):
    """One source. A round raises nothing but CollectError, when the source cannot be found at all."""

    def round(self) -> list[Scrape]: ...
    def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class Job:
    """One source and when it is read. Used by one thread at a time.

    Attributes:
        key: identifies it; the URL of a server.
        deployment: what its scrapes are part of; empty where they are of several.
        interval: seconds between the beginnings of two rounds.
        reader: what reads it.
        counts: whether its rounds read a server's counters, without which they failed.
        local: whether it is read without a network, and so never waits for sources that are.
        failures: rounds that failed in a row.
        due: steady seconds at which its last round was to begin.

    """

    key: str
    deployment: str
    interval: float
    reader: Reader
    counts: bool = True
    local: bool = False
    failures: int = 0
    due: float = 0.0

    @property
    def offset(self) -> float:
        """Seconds after the interval's beginning at which its rounds begin: fixed, and spread over all jobs."""
        return zlib.crc32(self.key.encode()) / 2**32 * self.interval

    def next_after(self, now: float) -> float:
        """Return when the next round is due, in steady seconds: whole intervals after the last one was due.

        Rounds that were missed are not made up for.
        """
        pauses = 1 << min(max(self.failures - 1, 0), _DOUBLINGS)
        return self.due + self.interval * max(pauses, math.ceil((now - self.due) / self.interval))


@dataclass(slots=True)
class TritonReader:
    """A Triton that is sought until it is found, and read from then on.

    Attributes:
        url: any endpoint of it.
        options: how to reach it.
        repository: the folder of its model repository, read once it was found and looked at again for changes; None
            where it is not at hand.

    """

    url: str
    options: SourceOptions
    repository: Path | None = None
    _found: TritonServer | None = None
    _name: str = ""
    _unanswered: int = 0
    _files: RepositoryFiles | None = None
    _files_due: float = 0.0

    @property
    def server(self) -> str:
        """Its name since it was found, also while it is sought again; before that its URL."""
        return self._name or self.url

    @property
    def blind_spots(self) -> tuple[BlindSpot, ...]:
        """What it cannot be asked."""
        return self._found.blind_spots if self._found else ()

    @property
    def found(self) -> TritonServer | None:
        """The server, once it was found."""
        return self._found

    def round(self) -> list[Scrape]:
        """Return one round.

        Raises:
            CollectError: it was not found yet, and is not now.

        """
        if self._found is not None:
            server = self._found
            return [*self._changed_files(server.name), *self._watched(server.round())]
        self._found = discover(self.url, self.options)
        self._name = self._found.name
        self._files, self._files_due = RepositoryFiles(self.repository) if self.repository else None, 0.0
        return [*self._changed_files(self._found.name), *self._found.round()]

    def _changed_files(self, server: str) -> list[Scrape]:
        """Return the repository's files that changed; one that cannot be read once begun is as it was."""
        now = time.monotonic()
        if self._files is None or now < self._files_due:
            return []
        first, self._files_due = self._files_due == 0.0, now + FILES_EVERY
        try:
            return self._files.changed(server)
        except CollectError:
            if first:
                raise
            return []

    def close(self) -> None:
        """Close the connection, if one is kept."""
        if self._found is not None:
            self._found.close()

    def _watched(self, scrapes: list[Scrape]) -> list[Scrape]:
        """Return the scrapes; a server that stays away is sought again, as it may come back with other ports."""
        self._unanswered = 0 if answered(scrapes) else self._unanswered + 1
        if self._unanswered >= LOST_AFTER:
            self.close()
            self._found, self._unanswered = None, 0
        return scrapes


class MachineReader:
    """The service's own machine and its GPUs, for each deployment whose servers run on it; silent elsewhere.

    Attributes:
        shares: what the last round read, by deployment. The GPUs are asked once for all.

    """

    def __init__(self, readers: Mapping[str, Sequence[TritonReader]]) -> None:
        self._readers = readers
        self._found: dict[str, tuple[TritonServer | None, ...]] = {}
        self._machines: dict[str, Machine] = {}
        self._gpus: NvmlSampler | None = None
        self.shares: dict[str, list[Scrape]] = {}

    def round(self) -> list[Scrape]:
        """Return samples of the machine and its GPUs; of a deployment none before all its servers were found."""
        for deployment, readers in self._readers.items():
            self._look(deployment, tuple(reader.found for reader in readers))
        local = {name: machine for name, machine in self._machines.items() if machine.local}
        self.shares = {name: machine.round() for name, machine in local.items()}
        whole = [name for name, machine in local.items() if machine.whole]
        gpus = self._sample_of_gpus(sought=bool(whole))
        for name in whole:
            self.shares[name] += gpus
        return [scrape for scrapes in self.shares.values() for scrape in scrapes]

    def close(self) -> None:
        """Give the GPUs' driver back what was taken."""
        self._found, self._machines = {}, {}
        self._sample_of_gpus(sought=False)

    def _look(self, deployment: str, servers: tuple[TritonServer | None, ...]) -> None:
        """Look again for a deployment's servers where others were found than before."""
        if self._found.get(deployment) == servers:
            return
        self._found[deployment], found = servers, [server for server in servers if server is not None]
        self._machines.pop(deployment, None)
        if len(found) == len(servers):
            self._machines[deployment] = Machine(found, gpus=False)
            if self._gpus is None and self._machines[deployment].whole:
                self._gpus = NvmlSampler.open()

    def _sample_of_gpus(self, *, sought: bool) -> list[Scrape]:
        if self._gpus is None:
            return []
        if sought:
            return [self._gpus.sample()]
        self._gpus.close()
        self._gpus = None
        return []


def answered(scrapes: Sequence[Scrape]) -> bool:
    """Return whether a round read counters."""
    return any(scrape.body is not None and scrape.kind in (BodyKind.METRICS, BodyKind.STATISTICS) for scrape in scrapes)


def failure_of(scrapes: Sequence[Scrape]) -> str:
    """Return why the first read of a round that failed did; empty when none did."""
    return next((f"{scrape.kind.value}: {scrape.error}" for scrape in scrapes if scrape.error), "")


def unread_part(scrapes: Sequence[Scrape], blind_spots: Sequence[BlindSpot]) -> str:
    """Return why a port could not be read in a round that read counters of another; empty when all could."""
    of_ports = [scrape for scrape in scrapes if scrape.kind in (BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.INDEX)]
    return failure_of(of_ports) or next((spot.why for spot in blind_spots), "")
