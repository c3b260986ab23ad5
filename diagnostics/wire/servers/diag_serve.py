"""Our own service, whose page says what it concluded about servers and nothing that they export themselves."""

from __future__ import annotations

from diagnostics.wire.servers.kind import ServerKind

KIND = ServerKind(
    name="diag serve",
    prefixes=("diag_build_info",),
    seen="this release, running",
    instead="ask it with --url and this address",
)
