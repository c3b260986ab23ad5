"""The Prometheus text format, read incrementally: what did not change since the last scrape is not parsed.

Formats: text format 0.0.4 (prometheus.io, "Exposition formats"), and OpenMetrics 1.0 where it differs.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import compress, count
from operator import ne
from weakref import WeakValueDictionary

import msgspec

from diagnostics import names
from diagnostics.errors import MalformedBody
from diagnostics.wire.json_body import excerpt, measured

# Possessive quantifiers: a hostile line costs time in proportion to its length, never more.
_HEAD = re.compile(
    rb"[ \t]*+(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*+"
    rb'(?:\{(?P<labels>(?:[^"{}]|"(?:[^"\\]|\\.)*+")*+)\})?+[ \t]*+'
)
_LABEL = re.compile(rb'[ \t]*+([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"((?:[^"\\]|\\.)*+)"[ \t]*+(?:,|$)')
_ESCAPE = re.compile(r'\\([\\n"])')
_ESCAPED = {"\\": "\\", "n": "\n", '"': '"'}
_BLANK = b" \t\r"
MOST_LINES = 125_000
"""Of one page: two thousand models export as many, each some sixty; each line of a series costs about a kilobyte."""
LONGEST_SERIES = 2**16
"""Bytes of a series' name and labels: what is usual takes a few hundred."""
MOST_NAMED = 20
"""Of the lines of one page that cannot be read, how many are named."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One series: its name as written (`…_count`, `…_sum` included) and its labels."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class SeriesLayout:
    """Which series a scrape holds. Consecutive scrapes with the same series in the same order share one.

    Compared and hashed by identity, so that "did the series change?" costs one `is`.

    Attributes:
        series: the series, in the order of the body; a slot is an index into it.
        by_name: the slots of each series name, ascending.
        types: the type of each family that states one (`counter`, `gauge`, `summary`, `histogram`, …).

    """

    series: tuple[Series, ...]
    by_name: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The values of one scrape, by slot of its layout. Never altered once made.

    The only place past a parser where NaN may stand (`Nan`: a summary without recent events);
    the window turns it into None.

    Attributes:
        layout: which series the scrape holds.
        values: their values, by slot.
        refused: why lines were left out, by the series in quotes, or by how the line starts.

    """

    layout: SeriesLayout
    values: Sequence[float]
    refused: Mapping[str, str] = field(default_factory=dict)


_NOTHING = SeriesLayout(series=(), by_name={}, types={})


@dataclass(slots=True)
class _Page:
    """A body taken apart: one entry of `heads` and `slots` per line, one of `values` per slot.

    The body is kept whole: its lines, each by itself, are half as large again, and are split in no time.
    """

    body: bytes
    heads: list[bytes]
    slots: list[int]
    values: array[float]
    types: dict[str, str]
    repeats: bool = False
    failed: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    first: MalformedBody | None = None

    def refuse(self, line: bytes, error: MalformedBody) -> None:
        """Leave a line out, by the name of its series where it has one."""
        self.failed += 1
        self.first = self.first or error
        if len(self.refused) < MOST_NAMED:
            head = _HEAD.match(line)
            self.refused.setdefault(excerpt(head[0].strip(_BLANK) if head else line), f"{error.what} ({error.where})")


@dataclass(slots=True, weakref_slot=True)
class _Alike:
    """What the bodies of servers with the same series have in common: replicas hold it once."""

    layout: SeriesLayout
    heads: list[bytes]
    slots: list[int]
    known: dict[bytes, Series]


_ALIKE: WeakValueDictionary[bytes, _Alike] = WeakValueDictionary()


class ExpositionReader:
    """Reads the metrics bodies of one server, remembering the last one so as to parse only what changed."""

    def __init__(self) -> None:
        self._page = _Page(b"", [], [], array("d"), {})
        self._layout = _NOTHING
        self._alike = _Alike(_NOTHING, [], [], {})

    def read(self, body: bytes) -> Snapshot:
        """Return the series and values of `body`; an empty body has none.

        A line's timestamp and exemplar are read over. When a series is repeated, its last value counts. A line that
        is not of the format is left out and named.

        Raises:
            MalformedBody: more lines are not of the format than are (an HTML page, binary data), the last one is cut
                off, or there are more than `MOST_LINES`. The reader keeps what it knew before.

        """
        if body.count(b"\n") > MOST_LINES:
            raise MalformedBody(f"the page holds more than {MOST_LINES:,} lines")
        lines = body.split(b"\n")
        if (values := self._changed_values(lines)) is None:
            return self._read_anew(body, lines)
        self._page.body, self._page.values = body, values
        return Snapshot(layout=self._layout, values=values, refused=self._page.refused)

    def _changed_values(self, lines: list[bytes]) -> array[float] | None:
        """Return the last values with those of changed lines replaced; None unless only values changed."""
        page = self._page
        if len(lines) != len(page.heads) or page.repeats:
            return None
        values, before = page.values[:], page.body.split(b"\n")
        heads, slots = page.heads, page.slots
        try:
            for at in compress(count(), map(ne, lines, before)):
                line, head = lines[at], heads[at]
                if not head or not line.startswith(head):
                    return None
                values[slots[at]] = _plain_number(line[len(head) :])
        except ValueError:
            return None
        return values

    def _read_anew(self, body: bytes, lines: list[bytes]) -> Snapshot:
        page, series = _take_apart(body, lines, self._alike.known)
        if page.types != self._layout.types or series != list(self._layout.series):
            self._alike = _shared(page, series)
            self._layout = self._alike.layout
        if page.heads == self._alike.heads:
            page.heads, page.slots = self._alike.heads, self._alike.slots
        self._page = page
        return Snapshot(layout=self._layout, values=page.values, refused=page.refused)


def _shared(page: _Page, series: list[Series]) -> _Alike:
    """Return what this page has in common with others, theirs if there are any."""
    key = sha256(b"\n".join(page.heads) + repr(page.types).encode()).digest()
    alike = _ALIKE.get(key)
    if alike is None:
        known = {head: series[slot] for head, slot in zip(page.heads, page.slots, strict=True) if head}
        alike = _ALIKE[key] = _Alike(_layout(series, page.types), page.heads, page.slots, known)
    return alike


def _take_apart(body: bytes, lines: list[bytes], known: Mapping[bytes, Series]) -> tuple[_Page, list[Series]]:
    page = _Page(body, [b""] * len(lines), [-1] * len(lines), array("d"), {})
    series: list[Series] = []
    slot_of: dict[bytes, int] = {}
    read = 0
    for at, line in enumerate(lines):
        bare = line.strip(_BLANK)
        if not bare or bare.startswith(b"#"):
            _note_type(bare, page.types)
            continue
        try:
            head = _head(line, at)
            value = _value(line, len(head), at)
            if (slot := slot_of.get(head, -1)) < 0:
                series.append(known.get(head) or parse_series(head, at))
        except MalformedBody as error:
            page.refuse(line, error)
            continue
        read += 1
        if slot < 0:
            slot = slot_of[head] = len(page.values)
            page.values.append(value)
        else:
            page.repeats, page.values[slot] = True, value
        page.heads[at], page.slots[at] = head, slot
    if page.first is not None and page.failed > read:
        raise page.first
    _refuse_cut_end(lines)
    return page, series


def parse_series(head: bytes, at: int = 0) -> Series:
    r"""Return the series that `head` names, its label values unescaped (`\\`, `\"`, `\n`).

    Args:
        head: name and labels, without a value.
        at: index of its line, for the message.

    Raises:
        MalformedBody: it is not `name` or `name{label="value",…}`.

    """
    match = _HEAD.fullmatch(head)
    if match is None:
        raise _refusal(at, head)
    try:
        name = names.as_exported(match["name"].decode())
        return Series(name=name, labels=dict(_labels(match["labels"] or b"", head, at)))
    except UnicodeDecodeError:
        raise _refusal(at, head) from None


def _labels(text: bytes, head: bytes, at: int) -> Iterable[tuple[str, str]]:
    position, text = 0, text.rstrip(_BLANK)
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None:
            raise _refusal(at, head)
        yield match[1].decode(), _ESCAPE.sub(lambda found: _ESCAPED[found[1]], match[2].decode())
        position = match.end()


def _head(line: bytes, at: int) -> bytes:
    match = _HEAD.match(line)
    if match is None:
        raise _refusal(at, line)
    if match.end() > LONGEST_SERIES:
        what = f"a series has more than {LONGEST_SERIES >> 10} KiB of labels"
        raise MalformedBody(what, where=f"line {at + 1}")
    return match[0]


def _value(line: bytes, start: int, at: int) -> float:
    words = line[start:].partition(b"#")[0].split()
    try:
        value, *timestamp = map(_plain_number, words)
    except ValueError:
        value, timestamp = 0.0, [0.0, 0.0]
    # The name needs a separator before the value: `up1` is a name without a value.
    if len(timestamp) > 1 or line[start - 1 : start] not in (b" ", b"\t", b"}"):
        raise _refusal(at, line)
    return value


def _plain_number(text: bytes) -> float:
    """Return the number; ValueError for what Python's float takes beyond the format's (`1_000`)."""
    if b"_" in text:
        raise ValueError(text)
    return measured(text)


def _note_type(comment: bytes, types: dict[str, str]) -> None:
    words = comment.split(maxsplit=3)
    if len(words) == 4 and words[0] == b"#" and words[1] == b"TYPE":
        types[words[2].decode(errors="replace")] = words[3].decode(errors="replace")


def _layout(series: list[Series], types: Mapping[str, str]) -> SeriesLayout:
    by_name: dict[str, list[int]] = {}
    for slot, one in enumerate(series):
        by_name.setdefault(one.name, []).append(slot)
    slots = {name: tuple(found) for name, found in by_name.items()}
    return SeriesLayout(series=tuple(series), by_name=slots, types=types)


def _refuse_cut_end(lines: list[bytes]) -> None:
    """Refuse a last sample without line feed: its value may have lost digits, and so look like a reset."""
    if (last := lines[-1].strip(_BLANK)) and not last.startswith(b"#"):
        raise MalformedBody(
            f"the metrics end in the middle of a line: {excerpt(lines[-1])}",
            where=f"line {len(lines)}",
            hint="the read was cut short",
        )


def _refusal(at: int, seen: bytes) -> MalformedBody:
    return MalformedBody(
        f"not a Prometheus metric: {excerpt(seen)}",
        where=f"line {at + 1}",
        hint="check that the address is Triton's metrics port",
    )
