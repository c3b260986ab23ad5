"""A worker of NVIDIA Dynamo. Its engine's own families stand on the same page, where they are turned on.

A worker with a Triton inside starts it without ports and loads its models itself, in explicit control mode.
Sources: dynamo, `lib/runtime/src/metrics/prometheus_names.rs`, `docs/backends`,
`examples/backends/tritonserver/src/tritonworker.py`.
"""

from __future__ import annotations

from diagnostics.wire.servers.kind import ServerKind

KIND = ServerKind(
    name="a worker of NVIDIA Dynamo",
    restarts="the worker of NVIDIA Dynamo",
    page=":8081/metrics",
    prefixes=("dynamo_component_",),
    never=frozenset({"dynamo_frontend_disconnected_clients", "dynamo_frontend_inflight_requests"}),  # its router's
    stored=("dynamo_component_requests_total",),
    encloses=True,
    seen="Dynamo 1.6.1, running with its mocker engine",
    instead="let the worker export its engine's metrics too (dynamo.trtllm: --publish-events-and-metrics)",
)
