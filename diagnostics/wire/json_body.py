"""JSON bodies read with care: either spelling of a key, integers as strings, absent objects, one error."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from diagnostics.errors import MalformedBody
from diagnostics.units import LATEST_SECOND

LARGEST_INTEGER = 2**64
"""No wire format that is read here has wider integers; larger ones overflow the arithmetic that follows."""
LARGEST_NUMBER = 1e30
"""Counters end at 2^64, nanoseconds and bytes far below; the square of a larger number may be none (ours)."""
MOST_VALUES = 2_000_000
"""Of one body: statistics of a thousand models with fifty batch sizes each have half as many; each costs 100 bytes."""
# Longer than any 64-bit integer, shorter than where int() itself refuses.
_DECIMAL = re.compile(r"\s*[+-]?[0-9]{1,400}\s*", re.ASCII)
_LONGEST_INTEGER = 400
_DIGITS = 18
_ESCAPED_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")
SHOWN_CHARACTERS = 60
"""How much of an unexpected body a message quotes: enough to recognise a login page, and yet one line."""


def excerpt(seen: str | bytes) -> str:
    """Return what was seen in quotes, cut to 60 characters, control and undecodable characters escaped."""
    text = seen[: 4 * SHOWN_CHARACTERS].decode("utf-8", "backslashreplace") if isinstance(seen, bytes) else seen
    return ascii(text[:SHOWN_CHARACTERS] + ("…" if len(text) > SHOWN_CHARACTERS else "")).replace("\\u2026", "…")


def decode(body: bytes, what: str) -> object:
    """Return the decoded JSON value of `body`.

    Args:
        body: the raw bytes.
        what: what the body should be, for the message (`the statistics`).

    Raises:
        MalformedBody: it is not JSON (a login page, a truncated read, another service), nested too deeply, or holds
            more than `MOST_VALUES`.

    """
    try:
        return json_value(body)
    except TooManyValues as error:
        raise MalformedBody(f"{what} {error}") from None
    except ValueError as error:
        raise MalformedBody(
            f"{what} should be JSON but starts with {excerpt(body)}",
            hint="check that the address is Triton's HTTP port",
        ) from error


class TooManyValues(ValueError):
    """A document holds more values than are read into memory."""


def refuse_many(body: bytes) -> None:
    """Refuse a JSON document of which too many objects would be made.

    Raises:
        TooManyValues: it may hold more than `MOST_VALUES`.

    """
    if sum(map(body.count, (b",", b"{", b"["))) > MOST_VALUES:
        raise TooManyValues(f"holds more than {MOST_VALUES:,} values")


def json_value(text: bytes | str, *, whole: bool = True) -> object:
    """Return the value of a JSON document that anyone may have written: every one is read here.

    Args:
        text: the document.
        whole: whether halves of characters, which nothing can write, are replaced.

    Raises:
        ValueError: it is not JSON, nested too deeply, or holds more than `MOST_VALUES`.

    """
    body = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    refuse_many(body)
    try:
        value = _value(text, body)
        return _whole_characters(value, body) if whole else value
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _value(text: bytes | str, body: bytes) -> object:
    """Return the value of a document; what is not quite JSON is read by the slower, more lenient parser."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError):
        # A byte that is no character's costs the entry that it stands in, and not the document.
        return _DECODER.decode(text.decode(json.detect_encoding(text), "replace") if isinstance(text, bytes) else text)


def in_utf8(body: bytes) -> bytes:
    """Return a text with each byte that is no character's replaced; the text itself if there are none."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace").encode()
    return body


def _integer(text: str) -> int | float:
    """Return a number; one longer than Python reads is as far from any real one as infinity, and one entry's alone."""
    return int(text) if len(text) <= _LONGEST_INTEGER else math.inf


_DECODER = json.JSONDecoder(parse_int=_integer)


def _whole_characters(value: object, body: bytes) -> object:
    r"""Return the value with the halves of characters (`"\ud800"`), which nothing can write, replaced."""
    if not _ESCAPED_HALF.search(body):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(_HALF.sub("\N{REPLACEMENT CHARACTER}", text)) if _HALF.search(text) else value


def decode_object(body: bytes, what: str) -> JsonFields:
    """Return the JSON object in `body` as `JsonFields`.

    Raises:
        MalformedBody: it is no JSON object, or it is Triton's `{"error": …}` answer.

    """
    value = decode(body, what)
    if not isinstance(value, dict):
        raise MalformedBody(f"{what} should be a JSON object but is {excerpt(body)}")
    if isinstance(error := value.get("error"), str):
        raise MalformedBody(f"the server answered with an error instead of {what}: {excerpt(error)}")
    return JsonFields(value, what)


class JsonFields:
    """One JSON object, whose keys are asked for in snake_case and found in camelCase too.

    An absent or null value reads as the default; one of the wrong type raises MalformedBody naming the key.
    """

    __slots__ = ("_values", "_what")

    def __init__(self, values: Mapping[str, object], what: str) -> None:
        self._values, self._what = values, what

    def raw(self, key: str) -> object:
        """Return the value as decoded, or None."""
        value = self._values.get(key)
        if value is None and "_" in key:
            return self._values.get(_camel(key))
        return value

    def has(self, key: str) -> bool:
        """Return whether the key is there and not null."""
        return self.raw(key) is not None

    def text(self, key: str, default: str = "") -> str:
        """Return a string; numbers are given as text."""
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self._refusal(key, value, "a string")

    def integer(self, key: str, default: int = 0) -> int:
        """Return an integer, which may arrive as a decimal string (gRPC's JSON writes 64-bit integers so)."""
        value = self.raw(key)
        if value is None:
            return default
        found = _whole(value)
        if found is None or abs(found) > LARGEST_INTEGER:
            raise self._refusal(key, value, "an integer")
        return found

    def flag(self, key: str) -> bool:
        """Return a boolean, False when absent."""
        value = self.raw(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self._refusal(key, value, "true or false")

    def child(self, key: str) -> JsonFields:
        """Return the object under `key`, an empty one when absent."""
        value = self.raw(key)
        if value is None:
            return JsonFields({}, self._what)
        if isinstance(value, dict):
            return JsonFields(value, self._what)
        raise self._refusal(key, value, "an object")

    def items(self) -> tuple[tuple[str, object], ...]:
        """Return the keys and values as decoded."""
        return tuple(self._values.items())

    def children(self, key: str) -> tuple[JsonFields, ...]:
        """Return the objects listed under `key`, none when absent."""
        return tuple(self._as_object(key, value) for value in self._list(key))

    def integers(self, key: str) -> tuple[int, ...]:
        """Return the integers listed under `key`, none when absent."""
        return tuple(JsonFields({key: value}, self._what).integer(key) for value in self._list(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the strings listed under `key`, none when absent."""
        return tuple(JsonFields({key: value}, self._what).text(key) for value in self._list(key))

    def text_map(self, key: str) -> Mapping[str, str]:
        """Return the object under `key` as strings by name, empty when absent."""
        child = self.child(key)
        return {name: child.text(name) for name, _ in child.items()}

    def _list(self, key: str) -> list[object]:
        value = self.raw(key)
        if value is None:
            return []
        if isinstance(value, list):
            return value
        raise self._refusal(key, value, "a list")

    def _as_object(self, key: str, value: object) -> JsonFields:
        if isinstance(value, dict):
            return JsonFields(value, self._what)
        raise self._refusal(key, value, "a list of objects")

    def _refusal(self, key: str, value: object, wanted: str) -> MalformedBody:
        return MalformedBody(f"{self._what}: {excerpt(key)} should be {wanted} but is {excerpt(repr(value))}")


def _whole(value: object) -> int | None:
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return int(value)
    return int(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else None


def measured(text: bytes | str) -> float:
    """Return the number that a text is; one that is larger than anything can be measured is infinite.

    Raises:
        ValueError: it is no number.

    """
    value = float(text)
    if -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
        return value
    return value if math.isnan(value) else math.copysign(math.inf, value)


def decimal(text: str | None) -> int | None:
    """Return the number that a label or a name spells in up to 18 ASCII digits, which is any count; None for others."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def number(value: object) -> float | None:
    """Return a number up to 1e30, also one written as a string (`"42"`, `"  123 kB"` is not one), else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if -LARGEST_NUMBER <= result <= LARGEST_NUMBER else None


def moment(value: object) -> float | None:
    """Return Unix seconds of a time that a calendar has; None for others."""
    at = number(value)
    return at if at is not None and 0 <= at <= LATEST_SECOND else None


@lru_cache(maxsize=1024)  # the keys that this program asks for
def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)
