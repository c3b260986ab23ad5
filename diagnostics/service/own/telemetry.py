"""What the environment variables of OpenTelemetry ask for: which signals go where, and whether that can be done.

Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
https://opentelemetry.io/docs/specs/otel/protocol/exporter/. Everything else that they may say (samplers, batches,
compression, certificates, limits) is read by the SDK itself, in its own units.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol
from urllib.parse import urlsplit

from diagnostics.errors import UsageError
from diagnostics.service.component import Component
from diagnostics.service.listening import LISTEN_SETTING, Listen, parse_listen
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.settings.tree import Settings

SIGNALS = ("traces", "metrics")
HTTP, GRPC = "http/protobuf", "grpc"
_EXPORTERS = frozenset({"otlp", "console", "none"})
_HEADER = re.compile(r"\s*[^\s=,;]+\s*=[^,]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelSignal:
    """One signal that is wanted somewhere.

    Attributes:
        name: `traces` or `metrics`.
        console: whether it is written to standard output.
        protocol: how it is sent; empty where it is not.
        endpoint: the URL that it is sent to, as the exporter understands it, credentials and all.
        variable: what named the endpoint.

    """

    name: str
    console: bool
    protocol: str = ""
    endpoint: str = ""
    variable: str = ""

    @property
    def where(self) -> tuple[str, int]:
        """Host and port of the endpoint."""
        parts = urlsplit(self.endpoint)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def shown(self) -> str:
        """The endpoint as logs may show it: what follows the port may be a secret."""
        host, port = self.where
        return f"{host}:{port}"


def signals_of(environment: Mapping[str, str]) -> tuple[OtelSignal, ...]:
    """Return the signals that are wanted; none unless an exporter or an endpoint is named.

    Raises:
        UsageError: a variable asks for what cannot be done.

    """
    if _read(environment, "OTEL_SDK_DISABLED").lower() == "true":
        return ()
    return tuple(_signals(environment))


def _signals(environment: Mapping[str, str]) -> Iterator[OtelSignal]:
    for name in SIGNALS:
        endpoint = _first(environment, f"OTEL_EXPORTER_OTLP_{name.upper()}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
        wanted = _exporters(environment, name, default="otlp" if endpoint[1] else "none")
        if "otlp" in wanted:
            yield _sent(environment, name, endpoint, console="console" in wanted)
        elif "console" in wanted:
            yield OtelSignal(name=name, console=True)


def _exporters(environment: Mapping[str, str], name: str, default: str) -> frozenset[str]:
    variable = f"OTEL_{name.upper()}_EXPORTER"
    text = _read(environment, variable) or default
    wanted = frozenset(one.strip() for one in text.split(",") if one.strip())
    for one in sorted(wanted - _EXPORTERS):
        hint = "name otlp, console or none; /metrics is there in any case"
        raise UsageError(f"there is no exporter {one!r}", where=variable, hint=hint)
    return frozenset() if "none" in wanted else wanted


def _sent(environment: Mapping[str, str], name: str, endpoint: tuple[str, str], *, console: bool) -> OtelSignal:
    variable, protocol = _first(
        environment, f"OTEL_EXPORTER_OTLP_{name.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
    )
    protocol = protocol or HTTP
    if protocol not in (HTTP, GRPC):
        raise UsageError(f"there is no protocol {protocol!r} here", where=variable, hint=f"name {HTTP} or {GRPC}")
    _check_numbers(environment, name)
    _check_headers(environment, name)
    url = _url(name, protocol, *endpoint)
    return OtelSignal(name=name, console=console, protocol=protocol, endpoint=url, variable=endpoint[0])


def _url(name: str, protocol: str, variable: str, text: str) -> str:
    """Return the URL that a signal is sent to: of a base endpoint over HTTP, the signal's path is below it."""
    url = text or ("http://localhost:4318" if protocol == HTTP else "http://localhost:4317")
    if protocol == GRPC and "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError("the endpoint is no URL", where=variable, hint="write it as in http://collector:4318")
    own = variable == f"OTEL_EXPORTER_OTLP_{name.upper()}_ENDPOINT" and text
    return url if own or protocol == GRPC else f"{url.rstrip('/')}/v1/{name}"


def _check_numbers(environment: Mapping[str, str], name: str) -> None:
    for variable in (f"OTEL_EXPORTER_OTLP_{name.upper()}_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"):
        text = _read(environment, variable)
        try:
            good = not text or 0 < float(text) < float("inf")
        except ValueError:
            good = False
        if not good:
            raise UsageError(f"{text!r} is no number of seconds", where=variable)


def _check_headers(environment: Mapping[str, str], name: str) -> None:
    """Refuse headers that cannot be read, without showing them: the SDK would log them, secrets and all."""
    for variable in (f"OTEL_EXPORTER_OTLP_{name.upper()}_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"):
        parts = [part for part in _read(environment, variable).split(",") if part.strip()]
        if not all(_HEADER.fullmatch(part) and part.isascii() and part.isprintable() for part in parts):
            hint = "write key=value,key=value, with special characters encoded as in URLs"
            raise UsageError("a header cannot be read", where=variable, hint=hint)


def _first(environment: Mapping[str, str], *variables: str) -> tuple[str, str]:
    """Return the first variable that is set, and its value; the last one and nothing where none is."""
    for variable in variables:
        if text := _read(environment, variable):
            return variable, text
    return variables[-1], ""


def _read(environment: Mapping[str, str], variable: str) -> str:
    """Return a variable; one that is empty counts as not set."""
    return environment.get(variable, "").strip()


_EXPORTER_MODULES = "diagnostics.service.own.exporters"


class _Exporters(Protocol):
    """The module that imports the SDK."""

    def own_exporters(
        self, signals: Sequence[OtelSignal], environment: Mapping[str, str], metrics: OwnMetrics
    ) -> Component: ...


def own_telemetry(settings: Settings, environment: Mapping[str, str], metrics: OwnMetrics) -> list[Component]:
    """Return what sends the signals that the environment asks for; `metrics.tracer` makes spans for it from now on.

    Raises:
        UsageError: a variable asks for what cannot be done, or to send to ourselves, or a package is not installed.

    """
    signals = wanted(settings, environment)
    if not signals:
        return []
    try:
        # As a name: where nothing is wanted, nothing of the SDK is imported.
        module: _Exporters = import_module(_EXPORTER_MODULES)
        return [module.own_exporters(signals, environment, metrics)]
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise _missing(signals) from None


def wanted(settings: Settings, environment: Mapping[str, str]) -> tuple[OtelSignal, ...]:
    """Return the signals that the environment asks for.

    Raises:
        UsageError: a variable asks for what cannot be done, or to send to ourselves.

    """
    signals = signals_of(environment)
    for signal in signals:
        if signal.protocol and _ours(settings, signal):
            hint = "name a collector, or another service"
            raise UsageError("the endpoint is this service itself", where=signal.variable, hint=hint)
    return signals


def _ours(settings: Settings, signal: OtelSignal) -> bool:
    external = settings.web.external_url.rstrip("/")
    if external and signal.endpoint.startswith(f"{external}/v1/"):
        return True
    listens = [parse_listen(settings.web.listen_address, LISTEN_SETTING)]
    if settings.otlp.grpc_listen_address:
        listens.append(parse_listen(settings.otlp.grpc_listen_address, "otlp.grpc_listen_address"))
    host, port = signal.where
    return any(port == listen.port and _leads_to(host, listen) for listen in listens)


def _leads_to(host: str, listen: Listen) -> bool:
    """Return whether a host is the one that is listened on, or an address of this machine where all are."""
    if host == listen.host:
        return True
    try:
        found = {one[4][0] for one in socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)}
        own = (
            {one[4][0] for one in socket.getaddrinfo(listen.host, None, type=socket.SOCK_DGRAM)} if listen.host else ()
        )
    except (OSError, UnicodeError):  # a name that is not known, or none, leads nowhere
        return False
    return any(address in own or (listen.everywhere and _is_here(str(address))) for address in found)


def _is_here(address: str) -> bool:
    """Return whether an address is one of this machine's: those of others cannot be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as one:
        one.bind((address, 0))
        return True
    return False


def _missing(signals: Sequence[OtelSignal]) -> UsageError:
    grpc = any(signal.protocol == GRPC for signal in signals)
    packages = "'triton-diagnostics[serve]'" + (" opentelemetry-exporter-otlp-proto-grpc" if grpc else "")
    return UsageError(
        "the exporter is not installed", where="OTEL_EXPORTER_OTLP_PROTOCOL", hint=f"pip install {packages}"
    )
