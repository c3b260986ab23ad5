"""Asks a port what it is. A port is believed only after it has answered as what it is taken for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TypeVar

from diagnostics.errors import MalformedBody
from diagnostics.wire.exposition import ExpositionReader, SeriesLayout
from diagnostics.wire.records import BodyKind
from diagnostics.wire.server import parse_server
from diagnostics.wire.servers.catalogue import instead_of, is_enclosed, kinds_of, named, other_pages, readable
from exporters.sources.access import SourceOptions
from exporters.sources.address import Address
from exporters.sources.http import HttpReader, Obstacle, ReadFailure, plain
from exporters.sources.triton_grpc import GrpcApi
from exporters.sources.triton_http import HttpApi, ListInstead, read_metrics
from exporters.sources.triton_server import Metrics
from exporters.sources.trtllm_serve import NO_PAGE, PAGE, iterations_url, read_iterations

T = TypeVar("T")


class OtherServer(ReadFailure):
    """The page of a server that is known and not read. `instead` says what to name for it."""

    def __init__(self, kind: str, instead: str) -> None:
        super().__init__(f"this is {kind}, whose page is not read", Obstacle.ANSWER)
        self.instead = instead


def probe_http(address: Address, options: SourceOptions) -> HttpApi:
    """Return the HTTP API at `address` (its path stands before `/v2`).

    Raises:
        ReadFailure: no server with Triton's protocol answers there.

    """
    api = HttpApi(HttpReader(options), str(address))
    _metadata(api.read(BodyKind.SERVER))
    return api


def probe_grpc(address: Address, options: SourceOptions) -> GrpcApi:
    """Return the gRPC API at `address`.

    Raises:
        ReadFailure: no Triton answers there, or the extra `grpc` is not installed.

    """
    api = GrpcApi(address, options)
    try:
        _metadata(api.read(BodyKind.SERVER))
    except ReadFailure:
        api.close()
        raise
    return api


def probe_metrics(address: Address, options: SourceOptions) -> Metrics:
    """Return the metrics page at `address`; a path without `/metrics` gets it appended.

    A list of iterations there is `trtllm-serve`'s, whose page is at another path of the same port. Other kinds have
    theirs at other paths, too, and nothing at this one.

    Raises:
        OtherServer: the page is one of a known server that is not read.
        ReadFailure: no page of a server's metrics is there.

    """
    path = address.path if address.path.endswith("/metrics") else f"{address.path}/metrics"
    url, reader = str(replace(address, path=path)), HttpReader(options)
    try:
        return _metrics(reader, url, options)
    except ListInstead:
        beside = str(replace(address, path=path.removesuffix("/metrics") + PAGE))
        try:
            return _metrics(reader, beside, options)
        except ReadFailure as failure:
            raise ReadFailure(f"{NO_PAGE} ({failure.reason})", failure.obstacle) from None
    except ReadFailure as failure:
        if failure.status != HTTPStatus.NOT_FOUND or address.path.endswith("/metrics"):
            raise
        elsewhere = (str(replace(address, path=address.path + other)) for other in other_pages())
        found = first_found([(one, partial(_metrics, reader, one, options)) for one in elsewhere], {})
        if found is None:
            raise
        return found


def _metrics(reader: HttpReader, url: str, options: SourceOptions) -> Metrics:
    layout = _known_page(read_metrics(reader, url))
    listed = iterations_url(url) if options.iterations else None
    iterations = partial(read_iterations, reader, listed) if listed else None
    alone = bool(layout.series) and not any(kind.has_api for kind in kinds_of(layout))
    return Metrics(
        url=url,
        read=partial(read_metrics, reader, url),
        iterations=iterations,
        alone=alone,
        enclosed=is_enclosed(layout),
    )


def first_found(probes: Iterable[tuple[str, Callable[[], T]]], failures: dict[str, ReadFailure]) -> T | None:
    """Return what the first probe that succeeds gives; the others' failures are added under their names."""
    for name, probe in probes:
        try:
            return probe()
        except ReadFailure as failure:
            failures[name] = failure
    return None


def _metadata(body: bytes) -> None:
    try:
        metadata = parse_server(body)
    except MalformedBody as error:
        raise ReadFailure(f"not Triton's server metadata ({plain(error.what)})", Obstacle.ANSWER) from None
    if not metadata.name and not metadata.version:
        raise ReadFailure("JSON, but not Triton's server metadata", Obstacle.ANSWER)


def _known_page(body: bytes) -> SeriesLayout:
    try:
        layout = ExpositionReader().read(body).layout
    except MalformedBody as error:
        raise ReadFailure(f"not Prometheus metrics ({plain(error.what)})", Obstacle.ANSWER) from None
    # A Triton without models and GPU has nothing to say.
    if not layout.series or readable(layout):
        return layout
    if kinds_of(layout):
        raise OtherServer(named(layout), instead_of(layout))
    raise ReadFailure(f"metrics of {named(layout)}", Obstacle.ANSWER)
