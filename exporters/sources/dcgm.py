"""dcgm-exporter's page: GPUs of a machine that this one cannot ask through NVML."""

from __future__ import annotations

import time
from dataclasses import replace

from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.access import SourceOptions
from exporters.sources.address import parse_address
from exporters.sources.http import HttpReader, ReadFailure
from exporters.sources.schedule import CLOCK
from exporters.sources.triton_http import read_metrics

USUAL_PORT = 9400


class DcgmPage:
    """Reads one exporter's page a round. A read that fails is a scrape with its reason.

    Attributes:
        name: separates this source from the servers.

    """

    def __init__(self, url: str, options: SourceOptions) -> None:
        """Take the page at `url`; a path without `/metrics` gets it appended.

        Raises:
            UsageError: `url` is no address.

        """
        address = parse_address(url)
        path = address.path if address.path.endswith("/metrics") else f"{address.path}/metrics"
        address = replace(address, port=address.port or USUAL_PORT, path=path)
        self._url = str(address)
        self.name = f"dcgm-exporter at {address.netloc()}"
        # Another program than the servers: their credentials are none of its business.
        plain = replace(options, bearer_token=None, basic=None, headers={}, cert_file=None, key_file=None)
        self._reader = HttpReader(plain.for_user(address.user))

    def round(self) -> list[Scrape]:
        """Return the page as it is now."""
        at, begun = CLOCK.now(), time.monotonic()
        body, error = None, None
        try:
            body = read_metrics(self._reader, self._url)
        except ReadFailure as failure:
            error = failure.reason
        took = time.monotonic() - begun
        return [Scrape(server="", kind=BodyKind.DCGM, at=at, mono=begun, took=took, body=body, error=error)]

    def close(self) -> None:
        """Nothing is kept open between two reads."""


def dcgm_page(options: SourceOptions) -> list[DcgmPage]:
    """Return the source that `--dcgm-url` names, none without it.

    Raises:
        UsageError: it is no address.

    """
    return [DcgmPage(options.dcgm_url, options)] if options.dcgm_url else []
