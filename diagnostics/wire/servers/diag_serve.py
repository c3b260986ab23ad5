"""Our own service, whose page tells what it says of servers and nothing that they say themselves."""

from __future__ import annotations

from diagnostics.wire.servers.kind import ServerKind

KIND = ServerKind(
    name="diag serve",
    prefixes=("diag_build_info",),
    seen="this release, running",
    instead="ask it with --url and this address",
)
