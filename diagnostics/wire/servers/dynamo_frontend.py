"""The frontend of NVIDIA Dynamo: requests as clients see them, in front of workers.

Sources: dynamo, `lib/runtime/src/metrics/prometheus_names.rs`.
"""

from __future__ import annotations

from diagnostics.wire.servers.kind import ServerKind

KIND = ServerKind(
    name="NVIDIA Dynamo's frontend",
    prefixes=("dynamo_frontend_",),
    stored=("dynamo_frontend_requests_total",),
    instead="name its workers' metrics pages instead (the port in DYN_SYSTEM_PORT), which show their engines",
)
