"""Where each scrape lies in a capture of format 1, both ways.

Two parts are added to what every recorder writes: `<target>/failed/<ms>-<kind>.json`, a read that failed and
why; and `<target>/later/<ms>/…`, a further body of a part that has no time of its own (a configuration after
a reload, the log's continuation).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import blake2b
from urllib.parse import quote, unquote

from diagnostics.errors import MalformedBody
from diagnostics.wire.failed_reads import LONGEST_REASON
from diagnostics.wire.json_body import decode_object, moment
from diagnostics.wire.records import BodyKind, Scrape

MANIFEST = "capture.json"
CLIENT = "client.jsonl"
MILLISECOND = 1e-3
_MACHINE = {"nvml": BodyKind.NVML, "dcgm": BodyKind.DCGM, "traces": BodyKind.TRACES}
_TIMED = {"metrics": BodyKind.METRICS, "stats": BodyKind.STATISTICS, "index": BodyKind.INDEX, "host": BodyKind.HOST}
_UNTIMED = {"server.json": BodyKind.SERVER, "server.log": BodyKind.LOG}
LATEST_MS = 253_402_300_799_999
"""The end of year 9999, past which no calendar goes: a stem beyond it is no time."""
_RESERVED = frozenset({*_MACHINE, MANIFEST, CLIENT, ".", ".."})
_STEM = re.compile(r"([0-9]{1,15})(?:-[0-9]+)?\.[a-z]+", re.ASCII)
# All of ASCII that prints, but the separators and the escape itself.
_PLAIN = "".join(chr(code) for code in range(32, 127) if chr(code) not in "/%\\")


def has_own_time(kind: BodyKind) -> bool:
    """Return whether a capture keeps every body of this kind under the time of its read."""
    return kind in _TIMED.values() or kind in _MACHINE.values()


def place(scrape: Scrape, bump: int = 0) -> str:
    """Return the path of `scrape` inside a capture.

    Args:
        scrape: what is recorded; a failed read has a place too.
        bump: milliseconds to add, for a body whose place is taken.

    """
    ms = round(scrape.at / MILLISECOND) + bump
    server = component(scrape.server)
    if scrape.body is None:
        return f"{server}/failed/{ms}-{scrape.kind}.json"
    match scrape.kind:
        case BodyKind.CLIENT:
            return CLIENT
        case BodyKind.NVML:
            return f"nvml/{ms}.json"
        case BodyKind.DCGM:
            return f"dcgm/{ms}.prom"
        case BodyKind.TRACES:
            return f"traces/{ms}-1.{'json' if scrape.body.lstrip()[:1] == b'{' else 'pb'}"
        case BodyKind.CONFIG:
            return f"{server}/config/{component(scrape.name)}.json"
        case BodyKind.REPOSITORY:
            return f"{server}/repository/" + "/".join(map(component, scrape.name.split("/")))
        case BodyKind.SERVER | BodyKind.LOG:
            return f"{server}/server.{'json' if scrape.kind is BodyKind.SERVER else 'log'}"
        case _:
            return f"{server}/{scrape.kind}/{ms}.{'prom' if scrape.kind is BodyKind.METRICS else 'json'}"


def place_later(scrape: Scrape, bump: int = 0) -> str:
    """Return the path of a further body of a part without a time of its own."""
    server, _, rest = place(scrape).partition("/")
    return f"{server}/later/{round(scrape.at / MILLISECOND) + bump}/{rest}"


def content(scrape: Scrape) -> bytes:
    """Return what the file of `scrape` holds: the body as it came, or JSON that says why there is none."""
    if scrape.body is not None:
        return scrape.body
    failure = {
        "t": scrape.at,
        "server": scrape.server,
        "kind": scrape.kind,
        "name": scrape.name,
        "reason": (scrape.error or "unknown")[:LONGEST_REASON],
    }
    return json.dumps(failure).encode()


def scrape_at(path: str, body: bytes, window_from: float) -> Scrape | None:
    """Return the scrape that lies at `path`, None for a part this version does not know.

    Args:
        path: the path inside the capture, without a wrapping folder.
        body: the file's content.
        window_from: Unix seconds for parts that have no time of their own.

    """
    first, *rest = path.split("/")
    if not rest:
        return _scrape("", BodyKind.CLIENT, window_from, body) if first == CLIENT else None
    if first in _MACHINE:
        return _timed("", _MACHINE[first], rest, body)
    return _of_server(unquote(first), rest, body, window_from)


def _of_server(server: str, rest: Sequence[str], body: bytes, at: float) -> Scrape | None:
    match rest:
        case [("server.json" | "server.log") as name]:
            return _scrape(server, _UNTIMED[name], at, body)
        case ["config", name] if name.endswith(".json"):
            return _scrape(server, BodyKind.CONFIG, at, body, unquote(name.removesuffix(".json")))
        case ["repository", *names] if names:
            return _scrape(server, BodyKind.REPOSITORY, at, body, "/".join(map(unquote, names)))
        case ["failed", _]:
            return _failed(body)
        case ["later", ms, *names] if names and names[0] != "later" and (later := _stem_time(f"{ms}.x")) is not None:
            return _of_server(server, names, body, later)
        case [folder, name] if folder in _TIMED:
            return _timed(server, _TIMED[folder], [name], body)
    return None


def _timed(server: str, kind: BodyKind, names: Sequence[str], body: bytes) -> Scrape | None:
    at = _stem_time(names[0]) if len(names) == 1 else None
    return None if at is None else _scrape(server, kind, at, body)


def _stem_time(name: str) -> float | None:
    """Return Unix seconds of a file's stem; None when it is not one."""
    found = _STEM.fullmatch(name)
    return int(found[1]) * MILLISECOND if found and int(found[1]) <= LATEST_MS else None


def _failed(body: bytes) -> Scrape | None:
    try:
        fields = decode_object(body, "the failed read")
        kind, at = BodyKind(fields.text("kind")), moment(fields.raw("t"))
        server, name = fields.text("server"), fields.text("name")
        reason = fields.text("reason")[:LONGEST_REASON] or "unknown"
    except (MalformedBody, ValueError):
        return None
    if at is None:
        return None
    return Scrape(server=server, kind=kind, at=at, mono=at, error=reason, name=name)


def _scrape(server: str, kind: BodyKind, at: float, body: bytes, name: str = "") -> Scrape:
    return Scrape(server=server, kind=kind, at=at, mono=at, body=body, name=name)


def component(name: str) -> str:
    """Return `name` as one path component that neither leads elsewhere nor hides a part of the format."""
    if not name:
        return "unnamed"
    quoted = quote(name, safe=_PLAIN)
    return f"%{ord(name[0]):02X}{quoted[1:]}" if name in _RESERVED else quoted


class Places:
    """The places that the scrapes of one capture have taken."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        # The newest body of each part without a time of its own: what was changed and put back is reported twice.
        self._newest: dict[str, bytes] = {}

    def __len__(self) -> int:
        """Return how many are taken."""
        return len(self._used)

    def reserve(self, scrape: Scrape, body: bytes, *, later: bool = False) -> str | None:
        """Return a path not yet used, which is from now on; None for an untimed part that is the same as before.

        Args:
            scrape: what is recorded.
            body: what its file will hold.
            later: give a part without a time of its own one, even where it is the first.

        """
        digest = blake2b(body, digest_size=16).digest()
        untimed = scrape.body is not None and not has_own_time(scrape.kind)
        path, bump = place(scrape), 0
        if untimed:
            if self._newest.get(path) == digest:
                return None
            self._newest[path] = digest
            if later and path not in self._used:
                path = place_later(scrape)
        while path in self._used:
            path = place_later(scrape, bump) if untimed else place(scrape, bump + 1)
            bump += 1
        self._used.add(path)
        return path
