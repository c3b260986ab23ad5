"""What a server's closed or unfound ports hide, in words."""

from __future__ import annotations

from collections.abc import Mapping, Set

from exporters.sources.failure import ReadFailure
from exporters.sources.triton_grpc import NOT_INSTALLED
from exporters.sources.triton_server import Gap

_Failures = Mapping[str, Mapping[str, ReadFailure]]


def gaps_of(found: Set[str], failures: _Failures, given: str | None) -> tuple[Gap, ...]:
    """Return what cannot be read.

    Args:
        found: the endpoints found, of `http`, `grpc` and `metrics`.
        failures: why others were not, by endpoint and `host:port`.
        given: the `host:port` that was asked for, if nothing answered there.

    """
    gaps = []
    if "metrics" not in found:
        gaps.append(_no_metrics(failures))
    if not {"http", "grpc"} & found:
        gaps.append(_no_api(failures))
    elif "http" not in found and failures["http"]:
        gaps.append(_only_grpc(failures))
    if given and not any(given in gap.why for gap in gaps):
        gaps.append(_beside(failures, given))
    return tuple(gaps)


def _no_metrics(failures: _Failures) -> Gap:
    return Gap(
        what="GPU gauges, pending requests, engine gauges, failures by reason and latency summaries",
        why=f"no metrics page: {_told(failures['metrics'])}",
        fix="start the server with --allow-metrics=true, or say where its metrics are with --metrics-url",
    )


def _no_api(failures: _Failures) -> Gap:
    missing = any(failure.reason == NOT_INSTALLED for failure in failures["grpc"].values())
    fix = "pip install 'triton-diagnostics[grpc]'" if missing else "open the HTTP or gRPC port to this machine"
    return Gap(
        what="statistics, configuration and instance counts (a busy share is only an upper bound)",
        why=f"neither HTTP ({_told(failures['http'])}) nor gRPC ({_told(failures['grpc'])}) can be read",
        fix=fix,
    )


def _beside(failures: _Failures, given: str) -> Gap:
    reason = next((told[given].reason for told in failures.values() if given in told), "no answer")
    return Gap(
        what="nothing, if the ports beside the one given are the server meant",
        why=f"{reason} at {given}",
        fix="give the server's HTTP port",
    )


def _only_grpc(failures: _Failures) -> Gap:
    return Gap(
        what="nothing: statistics and configuration are read over gRPC instead of HTTP",
        why=f"HTTP cannot be read: {_told(failures['http'])}",
        fix="",
    )


def _told(failures: Mapping[str, ReadFailure]) -> str:
    return "; ".join(f"{failure.reason} at {place}" for place, failure in failures.items()) or "not asked for"
