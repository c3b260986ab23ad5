"""A worker of NVIDIA Dynamo. Its engine's own families stand on the same page, where they are turned on.

Sources: dynamo, `lib/runtime/src/metrics/prometheus_names.rs`, `docs/backends`.
"""

from __future__ import annotations

from diagnostics.wire.servers.kind import ServerKind

KIND = ServerKind(
    name="a worker of NVIDIA Dynamo",
    prefixes=("dynamo_component_",),
    never=frozenset({"dynamo_frontend_disconnected_clients", "dynamo_frontend_inflight_requests"}),  # its router's
    stored=("dynamo_component_requests_total",),
    instead="let the worker export its engine's metrics too (dynamo.trtllm: --publish-events-and-metrics)",
)
