"""The table of servers in the support matrix, from what the code reads of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from diagnostics.wire.servers.catalogue import server_kinds
from diagnostics.wire.servers.kind import ServerKind

PAGE = Path(__file__).parent / "reference" / "support.md"
BEGIN, END = "<!-- servers: python -m docs -->\n", "<!-- end of servers -->\n"
# What a kind's fields mean -> the words of the table.
_READ = {
    "success": "requests",
    "request_seconds": "times",
    "scheduled": "running",
    "active": "running",
    "waiting": "waiting",
    "queued": "waiting",
    "slots": "slots",
    "kv_share": "KV use",
    "kv_used": "KV use",
    "kv_blocks": "KV blocks",
    "paused": "paused requests",
    "preempted": "preemptions",
    "token_budget": "token budget",
    "context_tokens": "prompt tokens",
    "iterations": "iterations",
    "iteration_seconds": "iterations",
}
_CACHE = {"waiting", "running", "KV use", "KV blocks"}
# Check -> what a page has to show for it to decide: one of these.
_NEEDS = {
    "engine-batch-limit": ({"waiting", "running", "slots"},),
    "kv-cache-exhausted": (_CACHE | {"slots"}, _CACHE | {"preemptions"}),
    "kv-cache-thrashing": ({"waiting", "paused requests", "KV use", "KV blocks"},),
    "engine-token-budget": ({"waiting", "running", "slots", "token budget", "prompt tokens"},),
}
_HEAD = """\
| server | read | engine checks that can decide | `whatif`, `tune` | options in remedies | tested with |
|---|---|---|---|---|---|
"""


def support_page() -> str:
    """Return the support matrix with its table of servers written again."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{servers_table()}\n{END}{after}"


def servers_table() -> str:
    """Return a row for each kind of server, those that are read first."""
    kinds = sorted(server_kinds(), key=lambda kind: (not kind.is_read, kind.name))
    return _HEAD + "".join(f"| {' | '.join(_row(kind))} |\n" for kind in kinds)


def shown(kind: ServerKind) -> list[str]:
    """Return what is read of a kind's page, in words and each once."""
    limits = (meaning for labels in kind.limits.values() for meaning in labels.values())
    typed = (meaning for _, values in kind.typed_gauges.values() for meaning in values.values())
    # What another server adds to its page is not its own.
    gauges = (what for name, what in kind.gauges.items() if not kind.prefixes or name.startswith(kind.prefixes))
    meanings = [*kind.requests.values(), *gauges, *kind.behind.values(), *limits, *typed]
    found = [_READ[meaning] for meaning in meanings if meaning in _READ]
    return list(dict.fromkeys([*found, *(["errors"] if kind.errors else [])]))


def deciding(kind: ServerKind) -> list[str]:
    """Return the engine checks for which its page alone shows enough."""
    read = set(shown(kind))
    return [check for check, ways in _NEEDS.items() if any(needs <= read for needs in ways)]


def _row(kind: ServerKind) -> Iterator[str]:
    yield kind.name
    if not kind.is_read:
        yield from ("named, not read", "none", "no", "none", kind.seen)
        return
    yield ("all that Triton exports; of engines " if kind.has_api else "") + ", ".join(shown(kind))
    yield ", ".join(f"`{check}`" for check in deciding(kind)) or "none alone"
    yield "both" if kind.has_api else "`whatif`"
    yield ", ".join(f"`{one.flag}`" for one in (kind.slots, kind.tokens, kind.memory) if one) or "none"
    yield kind.seen
