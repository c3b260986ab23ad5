"""The service's own traces and metrics, sent as the OTEL_* variables say; nothing where they ask for nothing."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol

from diagnostics.errors import UsageError
from diagnostics.service.listening import LISTEN_SETTING, Listen, parse_listen
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.own.otel_variables import GRPC, OtelSignal, signals_of
from diagnostics.service.part import Component
from diagnostics.settings.tree import Settings

_EXPORTERS = "diagnostics.service.own.exporters"


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
        module: _Exporters = import_module(_EXPORTERS)
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
    except OSError:  # a name that is not known leads nowhere
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
