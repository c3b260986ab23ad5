"""What a server's closed or unfound ports hide, in words."""

from __future__ import annotations

from collections.abc import Mapping, Set

from diagnostics.diagnosis.explanation import BlindSpot
from exporters.sources.failure import ReadFailure
from exporters.sources.triton_grpc import NOT_INSTALLED

_Failures = Mapping[str, Mapping[str, ReadFailure]]


def blind_spots_of(found: Set[str], failures: _Failures) -> tuple[BlindSpot, ...]:
    """Return what cannot be read, given the endpoints found (of `http`, `grpc`, `metrics`) and the failures."""
    spots = []
    if "metrics" not in found:
        spots.append(_no_metrics(failures))
    if not {"http", "grpc"} & found:
        spots.append(_no_api(failures))
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


def _no_metrics(failures: _Failures) -> BlindSpot:
    return BlindSpot(
        what="GPU gauges, pending requests, engine gauges, failures by reason and latency summaries",
        why=f"no metrics page: {_told(failures['metrics'])}",
        fix="start the server with --allow-metrics=true, or say where its metrics are with --metrics-url",
    )


def _no_api(failures: _Failures) -> BlindSpot:
    missing = any(failure.reason == NOT_INSTALLED for failure in failures["grpc"].values())
    fix = "pip install 'triton-diagnostics[grpc]'" if missing else "open the HTTP or gRPC port to this machine"
    return BlindSpot(
        what="statistics, configuration and instance counts (a busy share is only an upper bound)",
        why=f"neither HTTP ({_told(failures['http'])}) nor gRPC ({_told(failures['grpc'])}) can be read",
        fix=fix,
    )


def _told(failures: Mapping[str, ReadFailure]) -> str:
    return "; ".join(f"{failure.reason} at {place}" for place, failure in failures.items()) or "not asked for"
