"""What a server has to ask, and the configuration of what is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NotRequired, TypedDict

import msgspec

from diagnostics.errors import CollectError, MalformedBody, UsageError
from diagnostics.loadgen.transport import Endpoint
from diagnostics.wire.json_body import json_value
from diagnostics.wire.records import BodyKind
from diagnostics.wire.server import IndexEntry, parse_index
from exporters.sources.access import ON_THE_COMMAND_LINE, SourceOptions
from exporters.sources.address import parse_address
from exporters.sources.http import HttpReader, Obstacle, ReadFailure, plain
from exporters.sources.triton_grpc import GrpcApi
from exporters.sources.triton_http import HttpApi

Read = Callable[..., bytes]
# Models that a message names.
_SHOWN = 3


class TensorSpec(TypedDict):
    """An input or output of a configuration: a size of −1 is variable."""

    name: str
    data_type: str
    dims: list[int]
    optional: NotRequired[bool]


class _Policy(TypedDict, total=False):
    decoupled: bool


class Config(TypedDict):
    """What is needed of a model's configuration; protobuf's JSON leaves out what is empty."""

    name: str
    max_batch_size: NotRequired[int]
    input: NotRequired[list[TensorSpec]]
    output: NotRequired[list[TensorSpec]]
    sequence_batching: NotRequired[dict[str, Any]]
    ensemble_scheduling: NotRequired[dict[str, Any]]
    model_transaction_policy: NotRequired[_Policy]


def configuration(endpoint: Endpoint, options: SourceOptions, model: str | None) -> tuple[str, Mapping[str, Any]]:
    """Return the model to ask and its configuration, with lists of inputs and outputs.

    Args:
        endpoint: where the server is.
        options: how it is read.
        model: its name; None takes the server's one model or ensemble.

    Raises:
        UsageError: there is no such model that is ready, or it is not clear which is meant.
        CollectError: the server does not report it.

    """
    try:
        api = _api(endpoint, options)
    except ReadFailure as failure:
        raise CollectError(failure.reason, where=endpoint.name) from None
    try:
        if model is not None:
            return model, _named(api.read, endpoint, model)
        entries = _index(api.read, endpoint)
        _refuse_unready(entries, endpoint)
        return _only({name: _config(api.read, endpoint, name) for name in _ready(entries)}, endpoint)
    finally:
        api.close()


def _api(endpoint: Endpoint, options: SourceOptions) -> HttpApi | GrpcApi:
    if endpoint.secure:
        options.tls()
    if endpoint.protocol == "grpc":
        return GrpcApi(parse_address(endpoint.url), options)
    return HttpApi(HttpReader(options), endpoint.url)


def _named(read: Read, endpoint: Endpoint, model: str) -> Config:
    """Return a model's configuration; the repository index, which gateways may hide, is read where there is none."""
    try:
        return _config(read, endpoint, model)
    except CollectError as error:
        entries = _index(read, endpoint)
        states = [_state(one) for one in entries if one.name == model]
        if model in _ready(entries):
            raise error from None
    hint = f"it has {', '.join(_ready(entries)) or 'none that is ready'}"
    why = f" ({states[0]})" if states else ""
    raise UsageError(f"the server has no model {model!r} that is ready{why}", where=endpoint.name, hint=hint)


def _index(read: Read, endpoint: Endpoint) -> tuple[IndexEntry, ...]:
    try:
        return parse_index(read(BodyKind.INDEX))
    except ReadFailure as failure:
        raise CollectError(
            f"its list of models could not be read: {failure.reason}",
            where=endpoint.name,
            hint=_hint(failure, endpoint),
        ) from None
    except MalformedBody as error:
        raise CollectError(f"its list of models could not be read: {error.what}", where=endpoint.name) from None


def _hint(failure: ReadFailure, endpoint: Endpoint) -> str:
    if failure.obstacle in (Obstacle.NO_HOST, Obstacle.CLOSED):
        return "check the address, and that the server is up"
    if failure.obstacle is Obstacle.PROTOCOL:
        secure = f"{endpoint.url.partition('://')[0].rstrip('s')}{'' if endpoint.secure else 's'}://"
        return "" if "see --" in failure.reason else f"is {endpoint.protocol} spoken there, or {secure}?"
    if failure.obstacle is Obstacle.DENIED:
        return f"credentials are given by {ON_THE_COMMAND_LINE}"
    other = "; of an OpenAI endpoint give --protocol chat or completions" if endpoint.protocol != "grpc" else ""
    return f"is KServe spoken there, and may the repository index be read? --model does without it{other}"


def _ready(entries: tuple[IndexEntry, ...]) -> list[str]:
    return sorted({one.name for one in entries if one.name and one.state in ("READY", "")})


def _state(entry: IndexEntry) -> str:
    stated = plain(f"{entry.state}: {entry.reason}".strip(": ")) or "not loaded"
    return f"{entry.name} is {stated}"


def _refuse_unready(entries: tuple[IndexEntry, ...], endpoint: Endpoint) -> None:
    if not _ready(entries):
        states = "; ".join(map(_state, entries[:_SHOWN])) or "none is in its repository"
        raise CollectError(f"no model is ready: {states}", where=endpoint.name, hint="see the server's log")


def _config(read: Read, endpoint: Endpoint, model: str) -> Config:
    where = f"{endpoint.name}, configuration of {model}"
    try:
        body = read(BodyKind.CONFIG, model)
        # Over gRPC it comes in a message around it.
        value = json_value(body)
        value = value.get("config", value) if isinstance(value, dict) else value
        found = msgspec.convert(value, Config, strict=False)
    except ReadFailure as failure:
        raise CollectError(failure.reason, where=where) from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise CollectError(f"is no model configuration ({error})", where=where) from None
    return {"input": [], "output": [], **found}


def _only(configs: Mapping[str, Config], endpoint: Endpoint) -> tuple[str, Config]:
    """Return the model that clients call: the one there is, else the one ensemble."""
    ensembles = [name for name, config in configs.items() if "ensemble_scheduling" in config]
    for names in (list(configs), ensembles):
        if len(names) == 1:
            return names[0], configs[names[0]]
    hint = f"choose with --model from {', '.join(configs)}"
    raise UsageError("it is not clear which model to ask", where=endpoint.name, hint=hint)
