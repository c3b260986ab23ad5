"""A Prometheus, whose own page says nothing of the servers that it scrapes; what it stores does.

Source: Prometheus, `tsdb/db.go` and `tsdb/head.go` (its own metrics).
"""

from __future__ import annotations

from diagnostics.wire.servers.kind import ServerKind

KIND = ServerKind(
    name="Prometheus",
    prefixes=("prometheus_tsdb_", "prometheus_build_info"),
    seen="Debian's Prometheus, running",
    instead="explain what it stores: write prometheus+http:// (or prometheus+https://) before its address",
)
