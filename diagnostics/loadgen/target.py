"""A target that is ready to take load: its endpoint, its model, its requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostics.bench.workload import Workload
from diagnostics.errors import CollectError, UsageError, not_installed
from diagnostics.loadgen.inputs import Requests, make_requests, read_requests
from diagnostics.loadgen.tokens import counter, reads_of
from diagnostics.loadgen.transport import Endpoint, Reads, Reply, Transport
from exporters.sources.access import SourceOptions
from exporters.sources.address import Address, parse_address

PROTOCOLS = ("http", "grpc", "generate")
_PORTS = {"http": 8000, "grpc": 8001, "generate": 8000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What load is wanted of a target.

    Attributes:
        model: what to ask; None takes the server's one model or ensemble.
        protocol: one of PROTOCOLS; None follows the URL's scheme.
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
class Target:
    """A server that has answered a first request, and what is sent to it."""

    endpoint: Endpoint
    transport: Transport
    model: str
    requests: Requests
    workload: Workload
    count: Callable[[Reply], int | None]


def endpoint_of(url: str, wanted: Wanted) -> Endpoint:
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
        hint = "use --protocol generate or grpc"
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
    return address.netloc(address.port or _PORTS[protocol])


def transport_of(endpoint: Endpoint, options: SourceOptions) -> Transport:
    """Return a client of the endpoint.

    Raises:
        UsageError: the extra `bench` is not installed.

    """
    headers = options.request_headers()
    try:
        if endpoint.protocol == "grpc":
            if options.insecure:
                raise UsageError("gRPC does not go without verification", where="--insecure", hint="give --ca-file")
            from diagnostics.loadgen.kserve_grpc import GrpcTransport

            pem = {
                "root_certificates": options.ca_file,
                "private_key": options.key_file,
                "certificate_chain": options.cert_file,
            }
            return GrpcTransport(endpoint, headers, pem)
        from diagnostics.loadgen.generate import GenerateTransport
        from diagnostics.loadgen.kserve_http import HttpTransport
    except ModuleNotFoundError as error:
        raise not_installed(error, "bench", where="sending load") from error
    made = GenerateTransport if endpoint.protocol == "generate" else HttpTransport
    return made(endpoint, headers, options.tls() if endpoint.secure else None)


async def prepare(endpoint: Endpoint, transport: Transport, wanted: Wanted, scrub: Callable[[str], str]) -> Target:
    """Return the target, once it has answered one request as a result.

    Args:
        endpoint: where it is.
        transport: what sends.
        wanted: what load is wanted of it.
        scrub: takes credentials out of what a server may have echoed.

    Raises:
        UsageError: there is no such model, or it refuses the request.
        CollectError: the server does not answer.

    """
    model, config = await _configuration(endpoint, transport, wanted, scrub)
    reads = reads_of(config, wanted.tokens_from, wanted.tokenizer)
    count = counter(wanted.tokenizer)
    _refuse_decoupled(config, endpoint)
    requests = _requests(config, wanted)
    transport.prepare(model, requests.values, requests.kinds, reads)
    _judge_first(await transport.ask(0), endpoint, model, scrub)
    workload = _workload(requests, reads, wanted)
    return Target(
        endpoint=endpoint, transport=transport, model=model, requests=requests, workload=workload, count=count
    )


async def _configuration(
    endpoint: Endpoint, transport: Transport, wanted: Wanted, scrub: Callable[[str], str]
) -> tuple[str, Mapping[str, Any]]:
    try:
        models = await transport.server_models()
        configs = {
            name: await transport.config(name) for name in ([wanted.model] if wanted.model in models else models)
        }
    except Exception as error:
        raise _silent(endpoint, scrub(str(error)) or type(error).__name__) from error
    if wanted.model is not None and wanted.model not in models:
        hint = f"it has {', '.join(models) or 'none that is ready'}"
        raise UsageError(f"the server has no model {wanted.model!r} that is ready", where=endpoint.name, hint=hint)
    name = wanted.model or _only(configs, endpoint)
    return name, configs[name]


def _only(configs: Mapping[str, Mapping[str, Any]], endpoint: Endpoint) -> str:
    """Return the model that clients call: the one there is, else the one ensemble."""
    ensembles = [name for name, config in configs.items() if "ensemble_scheduling" in config]
    for names in (list(configs), ensembles):
        if len(names) == 1:
            return names[0]
    hint = f"choose with --model from {', '.join(configs) or 'none: no model is ready'}"
    raise UsageError("it is not clear which model to ask", where=endpoint.name, hint=hint)


def _requests(config: Mapping[str, Any], wanted: Wanted) -> Requests:
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


def _judge_first(reply: Reply, endpoint: Endpoint, model: str, scrub: Callable[[str], str]) -> None:
    if reply.ok:
        return
    said = scrub(reply.error)
    if reply.code == 0:
        raise CollectError(f"does not answer a request: {said}", where=endpoint.name)
    raise UsageError(f"{model} refuses the first request: {said}", where=endpoint.name, hint="give --input")


def _workload(requests: Requests, reads: Reads, wanted: Wanted) -> Workload:
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


def _silent(endpoint: Endpoint, said: str) -> CollectError:
    reason = " ".join(said.split())[:200]
    hint = f"is {endpoint.protocol} spoken there, and may its repository index be read?"
    return CollectError(f"does not tell its models: {reason}", where=endpoint.name, hint=hint)
