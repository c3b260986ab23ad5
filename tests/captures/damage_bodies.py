"""What befalls bodies: lost, cut, replaced, garbled, of another server, short of rows, families or fields."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from diagnostics.wire.records import BodyKind, Scrape
from tests.captures.resetting import with_reset_at
from tests.captures.variations import model_names

Scrapes = Sequence[Scrape]
Damage = Callable[[Scrapes, random.Random], Scrapes]
Rewrite = Callable[[Scrape], bytes]

COUNTED = (BodyKind.METRICS, BodyKind.STATISTICS)
TIMED = (*COUNTED, BodyKind.INDEX, BodyKind.NVML, BodyKind.DCGM, BodyKind.HOST)
_ERROR_PAGE = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
_NUMBER = re.compile(rb"(?<= )\d+$", re.MULTILINE)


def _some(scrapes: Scrapes, draw: random.Random, kinds: Sequence[BodyKind] = TIMED, most: float = 0.3) -> set[int]:
    """Return the positions of at least one body of some kinds, at most this share of them."""
    picked = set(draw.sample(kinds, draw.randint(1, len(kinds))))
    held = [i for i, scrape in enumerate(scrapes) if scrape.kind in picked and scrape.body]
    return set(draw.sample(held, draw.randint(1, max(int(len(held) * most), 1)))) if held else set()


def _one_or_some(scrapes: Scrapes, draw: random.Random) -> set[int]:
    """Return the position of one counted body, or of a few."""
    found = _some(scrapes, draw, COUNTED)
    return {draw.choice(sorted(found))} if found and draw.random() < 0.5 else found


def _rewritten(scrapes: Scrapes, at: set[int], rewrite: Rewrite) -> Scrapes:
    return [replace(s, body=rewrite(s)) if i in at and s.body else s for i, s in enumerate(scrapes)]


def drop_bodies(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Lose up to seven of ten bodies of some kinds."""
    lost = _some(scrapes, draw, most=0.7)
    return [scrape for i, scrape in enumerate(scrapes) if i not in lost]


def fail_reads(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Let some reads fail, and keep why."""
    lost = _some(scrapes, draw, most=0.5)
    reason = draw.choice(["no answer within 5 s", "HTTP 503", "connection refused"])
    return [replace(s, body=None, error=reason) if i in lost else s for i, s in enumerate(scrapes)]


def cut_bodies(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Cut some bodies off anywhere."""
    return _rewritten(
        scrapes, _some(scrapes, draw), lambda scrape: (scrape.body or b"")[: draw.randrange(len(scrape.body or b" "))]
    )


def replace_by_other_content(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Put a proxy's error page, nothing, JSON that says nothing or compressed bytes in the place of bodies."""
    kind = draw.randrange(4)

    def other(scrape: Scrape) -> bytes:
        return (_ERROR_PAGE, b"", b'{"error":"overloaded"}', gzip.compress(scrape.body or b""))[kind]

    return _rewritten(scrapes, _some(scrapes, draw), other)


def _model(scrapes: Scrapes, draw: random.Random) -> str:
    whole = [s for s in scrapes if s.kind is not BodyKind.STATISTICS or "model_stats" in _object(s.body or b"")]
    return draw.choice(model_names(whole) or ["none"])


def change_labels(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Let single bodies call a model or its version otherwise, or give its series a label that others lack."""
    name, how = _model(scrapes, draw), draw.randrange(3)
    quoted, other = name.encode(), draw.choice([b"renamed", b"model-2", name.upper().encode()])
    version = str(draw.randint(2, 9)).encode()

    def change(scrape: Scrape) -> bytes:
        body = scrape.body or b""
        if how == 0:
            return body.replace(b'"' + quoted + b'"', b'"' + other + b'"')
        if scrape.kind is BodyKind.METRICS:
            label = b'model="' + quoted + b'",version="'
            return re.sub(
                re.escape(label) + rb"\d+" if how == 1 else re.escape(label),
                label + version if how == 1 else b'region="b",' + label,
                body,
            )
        return _in_rows(scrape, lambda row: {**row, "version": version.decode()} if row["name"] == name else row)

    return _rewritten(scrapes, _one_or_some(scrapes, draw), change)


def _object(body: bytes) -> dict[str, Any]:
    """Return what an earlier damage left of a JSON object."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _in_rows(scrape: Scrape, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> bytes:
    body = scrape.body or b""
    if scrape.kind is not BodyKind.STATISTICS:
        return body
    answer = _object(body)
    rows = [changed for row in answer.get("model_stats", []) if (changed := change(row)) is not None]
    return json.dumps({**answer, "model_stats": rows}).encode()


def hide_a_model(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Leave a model's rows out of some bodies, scattered or in a row."""
    name, hidden = _model(scrapes, draw), _some(scrapes, draw, (*COUNTED, BodyKind.INDEX), most=0.5)
    if hidden and draw.random() < 0.5:
        times = sorted(scrapes[i].at for i in hidden)
        since, until = times[0], times[0] + draw.random() * (times[-1] - times[0])
        hidden = {i for i, s in enumerate(scrapes) if since <= s.at <= until and s.kind in (*COUNTED, BodyKind.INDEX)}
    label = f'model="{name}"'.encode()

    def hide(scrape: Scrape) -> bytes:
        body = scrape.body or b""
        if scrape.kind is BodyKind.METRICS:
            return b"".join(line for line in body.splitlines(keepends=True) if label not in line)
        if scrape.kind is BodyKind.INDEX:
            entries = re.split(rb"(?<=}),", body)
            return b",".join(entry for entry in entries if b'"name":"' + name.encode() + b'"' not in entry)
        return _in_rows(scrape, lambda row: None if row["name"] == name else row)

    return _rewritten(scrapes, hidden, hide)


def reset_counters(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Restart the server, or only lose one source's counters, at any moment; also twice."""
    kinds = draw.choice([COUNTED, COUNTED, (BodyKind.METRICS,), (BodyKind.STATISTICS,)])
    # In time order: counters that restarted before cannot stand below what they will have restarted from.
    for share in sorted(draw.uniform(0.05, 0.95) for _ in range(draw.choice([1, 1, 2]))):
        scrapes = with_reset_at(scrapes, share, kinds)
    return scrapes


def mix_in_a_replica(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Let some reads be answered by another replica behind the same address, which has counted more or less."""
    factor = draw.choice([0.02, 0.3, 0.9, 1.02, 1.5, 5.0])
    if draw.random() < 0.3:
        at = {i for i, s in enumerate(scrapes) if s.kind in COUNTED and draw.random() < 0.5}
    else:
        at = _some(scrapes, draw, COUNTED, most=0.5)

    def scaled(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: scaled(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [scaled(part, key) for part in value]
        kept = not isinstance(value, int) or key in ("batch_size", "last_inference")
        return value if kept else round(value * factor)

    def other(scrape: Scrape) -> bytes:
        body = scrape.body or b""
        if scrape.kind is BodyKind.STATISTICS:
            return _in_rows(scrape, scaled)
        return _NUMBER.sub(lambda found: str(round(int(found[0]) * factor)).encode(), body)

    return _rewritten(scrapes, at, other)


def lose_or_age_configurations(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Lose the configuration of some models, or keep it or the repository's files as they were before a change."""
    if draw.random() < 0.5:
        lost = {
            i for i, s in enumerate(scrapes) if s.kind in (BodyKind.CONFIG, BodyKind.REPOSITORY) and draw.random() < 0.5
        }
        return [scrape for i, scrape in enumerate(scrapes) if i not in lost]
    count, size = str(draw.choice([1, 2, 3, 8])).encode(), str(draw.choice([0, 1, 4, 64])).encode()

    def aged(scrape: Scrape) -> bytes:
        body = re.sub(rb'("?count"?: *)\d+', rb"\g<1>" + count, scrape.body or b"")
        return re.sub(rb'("?max_batch_size"?: *)\d+', rb"\g<1>" + size, body)

    # The server tells its configuration itself: a recorder keeps an old one for a model that it could not ask again.
    kinds = (BodyKind.REPOSITORY,) if draw.random() < 0.7 else (BodyKind.REPOSITORY, BodyKind.CONFIG)
    return _rewritten(scrapes, {i for i, s in enumerate(scrapes) if s.kind in kinds and draw.random() < 0.7}, aged)


def write_numbers_oddly(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Write numbers in another notation, or as none, in some bodies or in all."""
    how = draw.randrange(4)
    at = _some(scrapes, draw, COUNTED) if draw.random() < 0.5 else {*range(len(scrapes))}

    def odd(scrape: Scrape) -> bytes:
        body = scrape.body or b""
        if scrape.kind is BodyKind.METRICS:
            forms: Sequence[Callable[[int], str]] = (
                lambda number: f"{number:.17e}",
                lambda number: f"{number}.0",
                lambda number: f"+{number:e}" if number < 10**6 else str(number),
                lambda number: "NaN" if draw.random() < 0.02 else str(number),
            )
            return _NUMBER.sub(lambda found: forms[how](int(found[0])).encode(), body)
        if scrape.kind is BodyKind.STATISTICS:
            form = (rb'"\1"', rb"\1.0", rb"\1", rb"\1")[how]
            return re.sub(rb"(?<=[:\s])(\d+)(?=[,}\s])", form, body)
        return body

    return _rewritten(scrapes, at, odd)


def lose_families(scrapes: Scrapes, draw: random.Random) -> Scrapes:
    """Leave a family of metrics, the comments of pages or a field of statistics out of all bodies or of some."""
    at = _some(scrapes, draw, COUNTED) if draw.random() < 0.3 else {*range(len(scrapes))}
    families = sorted(
        {m[1] for s in scrapes if s.kind is BodyKind.METRICS for m in re.finditer(rb"# TYPE (\w+)", s.body or b"")}
    )
    lost = set(draw.sample(families, min(len(families), draw.randint(1, 3))))
    field = draw.choice(["batch_stats", "compute_input", "compute_infer", "queue", "success", "execution_count"])
    comments = draw.random() < 0.3

    def short(scrape: Scrape) -> bytes:
        body = scrape.body or b""
        if scrape.kind is BodyKind.STATISTICS:
            return _in_rows(scrape, lambda row: _without(row, field))
        if scrape.kind is not BodyKind.METRICS:
            return body
        lines = body.splitlines(keepends=True)
        if comments:
            return b"".join(line for line in lines if not line.startswith(b"#"))
        return b"".join(line for line in lines if re.split(rb"[{ ]", line)[0] not in lost)

    return _rewritten(scrapes, at, short)


def _without(row: dict[str, Any], field: str) -> dict[str, Any]:
    return {
        key: {name: part for name, part in value.items() if name != field} if key == "inference_stats" else value
        for key, value in row.items()
        if key != field
    }


BODY_DAMAGES: dict[str, Damage] = {
    "bodies dropped": drop_bodies,
    "reads failed": fail_reads,
    "bodies cut": cut_bodies,
    "other content": replace_by_other_content,
    "labels changed": change_labels,
    "model hidden": hide_a_model,
    "counters reset": reset_counters,
    "replica mixed in": mix_in_a_replica,
    "configuration lost or old": lose_or_age_configurations,
    "numbers odd": write_numbers_oddly,
    "families lost": lose_families,
}
