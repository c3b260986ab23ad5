"""How the tokens of an answer are counted: by the server, else by its tokenizer; words are no tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from diagnostics.bench.report import Workload
from diagnostics.errors import CollectError, UsageError, not_installed
from diagnostics.loadgen.inputs import COUNTS, Requests, make_requests, read_requests
from diagnostics.loadgen.transport import Endpoint, Reads, Reply, Transport
from exporters.sources.access import SourceOptions
from exporters.sources.address import Address, parse_address
from exporters.sources.repository import read_given


def reads_of(config: Mapping[str, Any], tokens_from: str | None, tokenizer: Path | None) -> Reads:
    """Return what to read of answers for their tokens.

    Args:
        config: the model's configuration.
        tokens_from: the output that holds a response's number of tokens; None takes `num_output_tokens` or
            `completion_tokens` if it is there.
        tokenizer: whose count of the text is wanted instead.

    Raises:
        UsageError: the model has no such output, or no text for the tokenizer, or both are wanted.

    """
    if tokenizer is not None and tokens_from is not None:
        where = "--tokenizer, --tokens-from"
        raise UsageError("tokens are counted in one way", where=where, hint="give one of them")
    outputs = {field["name"]: field["data_type"] for field in config.get("output", ())}
    if tokenizer is not None:
        texts = [name for name, kind in outputs.items() if kind == "TYPE_STRING"]
        if not texts:
            raise UsageError("the model has no text to count tokens of", where="--tokenizer")
        return Reads(text=texts[0])
    if tokens_from is not None and tokens_from not in outputs:
        hint = f"its outputs are {', '.join(outputs)}"
        raise UsageError(f"the model has no output {tokens_from!r}", where="--tokens-from", hint=hint)
    return Reads(counts=tokens_from or next((name for name in COUNTS if name in outputs), ""))


def counter(tokenizer: Path | None) -> Callable[[Reply], int | None]:
    """Return what counts the tokens of a reply; it returns None where they are not known.

    Raises:
        UsageError: the package `tokenizers` is missing, or the file is no tokenizer.

    """
    if tokenizer is None:
        return lambda reply: sum(reply.counts) if reply.counts else None
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise not_installed(error, "bench", where="--tokenizer") from error
    body = read_given(tokenizer)
    try:
        read = Tokenizer.from_buffer(body)
    # Its Rust side ends what it did not think of by a panic, which is no Exception.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        hint = "give the model's tokenizer.json"
        raise UsageError("is no tokenizer", where=str(tokenizer), hint=hint) from error
    return partial(_counted, read)


def _counted(tokenizer: Any, reply: Reply) -> int | None:
    try:
        return len(tokenizer.encode(reply.text, add_special_tokens=False).ids)
    except Exception:  # noqa: BLE001 - its errors are no more than that; a text that it does not take has no known number
        return None


OPENAI = ("chat", "completions")
_GRPC_PORT, _HTTP_PORT = 8001, 8000
# Other requests would get the same: an answer that is none, a redirect, too many requests, a gateway without a server.
_OTHERS_FAULT = frozenset({200, 429, 502, 503, 504, *range(300, 400)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """What load is wanted of a target.

    Attributes:
        model: what to ask; None takes the server's one model or ensemble.
        protocol: `http`, `grpc`, `generate` or one of OPENAI; None follows the URL's scheme.
        streaming: whether responses shall come one by one.
        length: words of a prompt, and the size of variable dimensions.
        max_tokens: tokens of an answer, where the model takes such a limit.
        input: a file of requests instead of random ones.
        tokens_from: the output that counts tokens.
        tokenizer: the file of a tokenizer that counts them.
        seed: of contents.
        timeout: seconds after which a request has failed.
        connections: open ones at most.

    """

    model: str | None = None
    protocol: str | None = None
    streaming: bool = False
    length: int = 32
    max_tokens: int = 64
    input: Path | None = None
    tokens_from: str | None = None
    tokenizer: Path | None = None
    seed: int = 1
    timeout: float = 30.0
    connections: int = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTarget:
    """A server that has answered a first request, and what is sent to it."""

    endpoint: Endpoint
    transport: Transport
    model: str
    requests: Requests
    workload: Workload
    count: Callable[[Reply], int | None]


def endpoint_of(url: str, wanted: TargetOptions) -> Endpoint:
    """Return where to send load.

    Raises:
        UsageError: the URL and the protocol do not fit.

    """
    address = parse_address(url)
    grpc = address.scheme in ("grpc", "grpcs")
    protocol = wanted.protocol or ("grpc" if grpc else "http")
    if grpc != (protocol == "grpc") and "://" in url:
        raise UsageError(f"is not spoken over {address.scheme}://", where=f"--protocol {protocol}")
    if protocol == "http" and wanted.streaming:
        hint = "use --protocol generate, grpc, chat or completions"
        raise UsageError("KServe's HTTP protocol does not stream", where="--streaming", hint=hint)
    name = _name(address, protocol)
    return Endpoint(
        place=name + address.path,
        name=name,
        secure=address.secure,
        protocol=protocol,
        streaming=wanted.streaming,
        timeout=wanted.timeout,
        connections=wanted.connections,
    )


def _name(address: Address, protocol: str) -> str:
    return address.netloc(address.port or (_GRPC_PORT if protocol == "grpc" else _HTTP_PORT))


def transport_of(endpoint: Endpoint, options: SourceOptions) -> Transport:
    """Return a client of the endpoint; to be called in a running event loop.

    Raises:
        UsageError: the extra `bench` is not installed, or an option cannot be met over the protocol.

    """
    try:
        if endpoint.protocol == "grpc":
            from diagnostics.loadgen.kserve_grpc import GrpcTransport

            return GrpcTransport(endpoint, options)
        from diagnostics.loadgen.http_transports import GenerateTransport, HttpTransport
        from diagnostics.loadgen.openai_api import OpenAiTransport
    except ModuleNotFoundError as error:
        raise not_installed(error, "bench", where="sending load") from error
    if endpoint.protocol in OPENAI:
        return OpenAiTransport(endpoint, options)
    return (GenerateTransport if endpoint.protocol == "generate" else HttpTransport)(endpoint, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be sent to a model, and how its answers are counted."""

    model: str
    requests: Requests
    reads: Reads
    count: Callable[[Reply], int | None]


def order_of(model: str, config: Mapping[str, Any], endpoint: Endpoint, wanted: TargetOptions) -> Order:
    """Return what is to be sent.

    Raises:
        UsageError: the model cannot be asked so.

    """
    reads = reads_of(config, wanted.tokens_from, wanted.tokenizer)
    count = counter(wanted.tokenizer)
    _refuse_decoupled(config, endpoint)
    return Order(model=model, requests=_requests(config, wanted), reads=reads, count=count)


async def first_answer(endpoint: Endpoint, transport: Transport, order: Order, wanted: TargetOptions) -> LoadTarget:
    """Return the target, once it has answered one request as a result.

    Raises:
        UsageError: it refuses the request.
        CollectError: it does not answer, or cannot answer now.

    """
    model, requests = order.model, order.requests
    transport.prepare(model, requests.values, requests.kinds, order.reads)
    reply = await transport.ask(0)
    _judge_first(reply, endpoint, model)
    if wanted.tokenizer is not None and order.count(reply) is None:
        raise UsageError(f"cannot count the tokens of an answer of {model}", where=str(wanted.tokenizer))
    return LoadTarget(
        endpoint=endpoint,
        transport=transport,
        model=model,
        requests=requests,
        workload=_workload(requests, order.reads, wanted),
        count=order.count,
    )


def _requests(config: Mapping[str, Any], wanted: TargetOptions) -> Requests:
    if wanted.input is not None:
        return read_requests(config, wanted.input, max_tokens=wanted.max_tokens, streaming=wanted.streaming)
    return make_requests(
        config, length=wanted.length, max_tokens=wanted.max_tokens, seed=wanted.seed, streaming=wanted.streaming
    )


def _refuse_decoupled(config: Mapping[str, Any], endpoint: Endpoint) -> None:
    decoupled = (config.get("model_transaction_policy") or {}).get("decoupled")
    if decoupled and not endpoint.streaming:
        hint = "add --streaming, with --protocol generate or grpc"
        raise UsageError("sends its responses one by one (decoupled)", where=config["name"], hint=hint)


def _judge_first(reply: Reply, endpoint: Endpoint, model: str) -> None:
    if reply.ok:
        return
    if reply.code == 0:
        hint = "see the server's log, or give a longer --request-timeout"
        raise CollectError(f"does not answer a request of {model}: {reply.error}", where=endpoint.name, hint=hint)
    what = f"{model} refuses the first request: {reply.error}"
    if reply.code in (401, 403):
        raise UsageError(what, where=endpoint.name, hint="see diag --help for credentials")
    if reply.code in _OTHERS_FAULT:
        raise CollectError(what, where=endpoint.name, hint="try again once it takes requests")
    raise UsageError(what, where=endpoint.name, hint="give --input, or another --protocol")


def _workload(requests: Requests, reads: Reads, wanted: TargetOptions) -> Workload:
    counted = reads.counts or (wanted.tokenizer.name if wanted.tokenizer else "")
    return Workload(
        digest=requests.digest,
        variants=len(requests.values),
        text=requests.text,
        length=requests.length,
        max_tokens=requests.sampling.max_tokens,
        asked=requests.sampling.asked,
        streaming=wanted.streaming,
        counted_by=counted,
    )
