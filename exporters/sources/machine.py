"""What the recording machine says of itself where a server runs on it: one more source of a round."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.wire.records import Scrape
from exporters.sources.host import find_server, sample_host
from exporters.sources.nvml import NvmlSampler
from exporters.sources.triton_server import TritonServer


class Machine:
    """Samples the host and its GPUs while at least one of `servers` runs here.

    Attributes:
        name: separates this source from the servers.
        local: names of the servers that run here.
        whole: whether all of them do. A sample of the GPUs names no server: read where some run elsewhere, it would
            stand for their GPUs too.

    """

    name = "this machine"

    def __init__(self, servers: Sequence[TritonServer], *, gpus: bool = True) -> None:
        """Look which servers run here; without `gpus` theirs are not sampled."""
        self._servers = tuple(server for server in servers if _pid(server) is not None)
        self.whole = bool(self._servers) and len(self._servers) == len(servers)
        self._nvml = NvmlSampler.open() if self.whole and gpus else None
        self.local = tuple(server.name for server in self._servers)

    def round(self) -> list[Scrape]:
        """Return one host sample per server that runs here now, and one of the GPUs."""
        # Sought again each time: a server that was restarted has another process.
        samples = [sample_host(server.name, _pid(server)) for server in self._servers]
        scrapes = [sample for sample in samples if sample is not None]
        return [*scrapes, self._nvml.sample()] if self._nvml else scrapes

    def close(self) -> None:
        """Give the driver back what was taken."""
        if self._nvml:
            self._nvml.close()


def _pid(server: TritonServer) -> int | None:
    return find_server(server.host, server.ports)
