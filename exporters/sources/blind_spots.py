"""What a server's closed or unfound ports hide, in words."""

from __future__ import annotations

from collections.abc import Mapping, Set

from diagnostics.diagnosis.explanation import BlindSpot
from diagnostics.diagnosis.port_notes import hidden_by
from diagnostics.window.unanswered import INFERENCE_PORT, METRICS_PORT
from exporters.sources.failure import Obstacle, ReadFailure
from exporters.sources.triton_grpc import NOT_INSTALLED

_METRICS_OFF = "start the server with --allow-metrics=true, or say where its metrics are with --metrics-url"
_CLOSED = "open the HTTP or gRPC port to this machine"
_Failures = Mapping[str, Mapping[str, ReadFailure]]


def blind_spots_of(server: str, found: Set[str], failures: _Failures, when_denied: str) -> tuple[BlindSpot, ...]:
    """Return what cannot be read.

    Args:
        server: its name.
        found: the endpoints found, of `http`, `grpc` and `metrics`.
        failures: why others were not, by endpoint and `host:port`.
        when_denied: what to do where one wants other credentials.

    """
    spots = []
    if "metrics" not in found:
        denied = _denied(failures["metrics"])
        spots.append(_no_metrics(server, failures, when_denied if denied else _METRICS_OFF))
    if not {"http", "grpc"} & found:
        denied = _denied(failures["http"]) or _denied(failures["grpc"])
        spots.append(_no_api(server, failures, when_denied if denied else _CLOSED))
    return tuple(spots)


def notes_of(found: Set[str], failures: _Failures, given: str | None) -> tuple[str, ...]:
    """Return what was not as expected, but hides nothing.

    Args:
        found: the endpoints found, of `http`, `grpc` and `metrics`.
        failures: why others were not, by endpoint and `host:port`.
        given: the `host:port` that was asked for, if nothing answered there.

    """
    notes = []
    if given:
        reason = next((told[given].reason for told in failures.values() if given in told), "no answer")
        notes.append(f"{given}: {reason}; what is read are the ports found beside it")
    if "grpc" in found and "http" not in found and failures["http"]:
        told = _told(failures["http"])
        notes.append(f"HTTP cannot be read ({told}): statistics and configuration come over gRPC")
    return tuple(notes)


def _denied(failures: Mapping[str, ReadFailure]) -> bool:
    return any(failure.obstacle is Obstacle.DENIED for failure in failures.values())


def _no_metrics(server: str, failures: _Failures, fix: str) -> BlindSpot:
    return BlindSpot(
        what=hidden_by(METRICS_PORT, server),
        why=f"no metrics page: {_told(failures['metrics'])}",
        fix=fix,
    )


def _no_api(server: str, failures: _Failures, fix: str) -> BlindSpot:
    missing = any(failure.reason == NOT_INSTALLED for failure in failures["grpc"].values())
    return BlindSpot(
        what=hidden_by(INFERENCE_PORT, server),
        why=f"neither HTTP ({_told(failures['http'])}) nor gRPC ({_told(failures['grpc'])}) can be read",
        fix="pip install 'triton-diagnostics[grpc]'" if missing and fix is _CLOSED else fix,
    )


def _told(failures: Mapping[str, ReadFailure]) -> str:
    return "; ".join(f"{failure.reason} at {place}" for place, failure in failures.items()) or "not asked for"
