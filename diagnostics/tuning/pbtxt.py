"""Protobuf text format as people write it, parsed without losing a character.

Every node knows its place in the text, so an edit replaces just that place. Template fields (`${name}`),
which TensorRT-LLM's files hold until they are filled, are words or parts of words and strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from diagnostics.errors import MalformedBody

# protobuf's own parsers stop at 100 levels; configurations need 6.
MAX_DEPTH = 64
# The largest configuration seen has 20 kB; a bound keeps a wrong file from taking minutes.
MAX_LENGTH = 4 * 2**20

_SKIP = re.compile(r"(?:[\s\ufeff]+|#[^\n]*)*", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|\'(?:[^\'\\\n]|\\[^\n])*\'')
_WORD = re.compile(r"(?:[\w.+\-]|\$\{[^{}\n]*\})+", re.ASCII)
_EXTENSION = re.compile(r"\[[\w./\-]+\]", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*\Z|\d+\Z", re.ASCII)
_TEMPLATE = re.compile(r"\$\{([^{}\n]*)\}")
_CLOSING = {"{": "}", "<": ">"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A number, word or (concatenated) string at `start:end`; `text` is what is written, quotes included."""

    start: int
    end: int
    text: str

    @property
    def value(self) -> str:
        """Return the word, or the content of the string without quotes and escapes."""
        parts = _STRING.findall(self.text) if self.text[:1] in ("'", '"') else []
        return "".join(_unescape(part[1:-1]) for part in parts) if parts else self.text

    @property
    def templates(self) -> tuple[str, ...]:
        """Return the names of the template fields within, in order."""
        return tuple(_TEMPLATE.findall(self.text))

    def integer(self) -> int | None:
        """Return a whole number (decimal, hexadecimal or octal), None when it is not one."""
        digits = "".join(self.text.split())
        match = re.fullmatch(r"(-?)(?:0[xX]([0-9a-fA-F]{1,16})|0([0-7]{1,22})|(0|[1-9]\d{0,19}))", digits, re.ASCII)
        if match is None:
            return None
        sign, hexadecimal, octal, decimal = match.groups()
        number = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
        return -number if sign else number


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMessage:
    """Fields between brackets; `inner_start` and `inner_end` are just inside of them."""

    start: int
    end: int
    inner_start: int
    inner_end: int
    fields: tuple[Field, ...]

    def all(self, name: str) -> tuple[Field, ...]:
        """Return the fields of this name, in order."""
        return tuple(field for field in self.fields if field.name == name)

    def messages(self, name: str) -> tuple[TextMessage, ...]:
        """Return the messages of this name, whether written as repeated fields or as lists."""
        return tuple(v for field in self.all(name) for v in field.values() if isinstance(v, TextMessage))

    def scalar(self, name: str) -> Scalar | None:
        """Return the last scalar of this name, None when there is none."""
        found = [v for field in self.all(name) for v in field.values() if isinstance(v, Scalar)]
        return found[-1] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListValue:
    """Values between square brackets."""

    start: int
    end: int
    items: tuple[Value, ...]


Value = Scalar | TextMessage | ListValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A name and its value; `end` is past the separator that may follow, `colon` says whether one came before."""

    name: str
    start: int
    end: int
    colon: bool
    value: Value

    def values(self) -> Iterator[Value]:
        """Yield the value, or each item of a list."""
        if isinstance(self.value, ListValue):
            yield from self.value.items
        else:
            yield self.value


def parse(text: str, path: str = "config.pbtxt") -> TextMessage:
    """Return the file as a message that spans the whole text.

    Takes linear time. Names and types of fields are not checked.

    Raises:
        MalformedBody: the text is not text format; names `path`, line and column, and what was expected.

    """
    if len(text) > MAX_LENGTH:
        raise MalformedBody(f"{len(text):,} characters are too many for a configuration", where=path)
    parser = _Parser(text, path)
    fields = parser.fields(closing="", depth=0)
    return TextMessage(start=0, end=len(text), inner_start=0, inner_end=len(text), fields=fields)


def quote(value: str) -> str:
    """Return a string literal."""
    plain = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{plain}"'


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _ESCAPES.get(code, code)


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        self.text, self.path, self.at = text, path, 0
        self._skip()

    def fields(self, *, closing: str, depth: int) -> tuple[Field, ...]:
        if depth > MAX_DEPTH:
            raise self._error(f"blocks are nested deeper than {MAX_DEPTH}", "remove a level")
        found: list[Field] = []
        while True:
            if self.at == len(self.text) and closing:
                raise self._error(f"the file ends where {closing!r} was expected", "close the block")
            if self.at == len(self.text) or (closing and self.text[self.at] == closing):
                return tuple(found)
            found.append(self._field(depth))

    def _field(self, depth: int) -> Field:
        start, name = self.at, self._name()
        colon = self._accept(":")
        if not colon and not self._peek("{<[") and "${" in name:
            value: Value = Scalar(start=start + len(name), end=start + len(name), text="")
        elif not colon and not self._peek("{<["):
            raise self._error(f"expected ':' or '{{' after {_shown(name)}, found {self._found()}", "add the value")
        else:
            value = self._value(depth)
        separator = self.at + 1
        end = separator if self._accept(",;") else value.end
        return Field(name=name, start=start, end=end, colon=colon, value=value)

    def _name(self) -> str:
        match = _EXTENSION.match(self.text, self.at) or _WORD.match(self.text, self.at)
        word = match[0] if match else ""
        if not (_NAME.match(word) or word.startswith("[") or "${" in word):
            raise self._error(f"expected a field name, found {self._found()}", "write `name: value`")
        self._advance(len(word))
        return word

    def _value(self, depth: int) -> Value:
        if self._peek("{<"):
            return self._message(depth)
        return self._list(depth) if self._peek("[") else self._scalar()

    def _message(self, depth: int) -> TextMessage:
        start, closing = self.at, _CLOSING[self.text[self.at]]
        self._advance(1)
        fields = self.fields(closing=closing, depth=depth + 1)
        inner_end = self.at
        self._advance(1)
        return TextMessage(start=start, end=inner_end + 1, inner_start=start + 1, inner_end=inner_end, fields=fields)

    def _list(self, depth: int) -> ListValue:
        start = self.at
        self._advance(1)
        items: list[Value] = []
        while not self._peek("]"):
            items.append(self._message(depth) if self._peek("{<") else self._scalar())
            if self._peek("]"):
                break
            if not self._accept(","):
                raise self._error(f"expected ',' or ']', found {self._found()}", "close the list")
            if self._peek("]"):
                raise self._error("expected a value after ',', found ']'", "remove the comma")
        end = self.at + 1
        self._advance(1)
        return ListValue(start=start, end=end, items=tuple(items))

    def _scalar(self) -> Scalar:
        start = end = self.at
        pattern = _STRING if self._peek("\"'") else _WORD
        match = pattern.match(self.text, self.at)
        if match is None:
            raise self._error(f"expected a value, found {self._found()}", "write a number, a word or a string")
        while match is not None:
            end = match.end()
            self._advance(len(match[0]))
            joins = pattern is _STRING or match[0] == "-"
            match = pattern.match(self.text, self.at) if joins else None
        return Scalar(start=start, end=end, text=self.text[start:end])

    def _peek(self, characters: str) -> bool:
        return self.at < len(self.text) and self.text[self.at] in characters

    def _accept(self, characters: str) -> bool:
        found = self._peek(characters)
        if found:
            self._advance(1)
        return found

    def _advance(self, count: int) -> None:
        self.at += count
        self._skip()

    def _skip(self) -> None:
        match = _SKIP.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _found(self) -> str:
        return _shown(self.text[self.at : self.at + 20].split("\n")[0]) if self.at < len(self.text) else "the end"

    def _error(self, what: str, hint: str) -> MalformedBody:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        return MalformedBody(what, where=f"{self.path}:{line}:{column}", hint=hint)


def _shown(text: str) -> str:
    return repr(text[:40])


_INDENT = "  "


def replace_value(text: str, value: Value, written: str) -> str:
    """Return the text with `written` in the place of a value."""
    return _spliced(text, value.start, value.end, written)


def add_field(text: str, parent: TextMessage, written: str) -> str:
    """Return the text with a field added after the parent's last one, in the parent's own layout."""
    if parent.start == parent.inner_start:
        return _appended(text, written)
    inner = text[parent.inner_start : parent.inner_end]
    if "\n" not in inner:
        return _added_inline(text, parent, written)
    return _added_line(text, parent, written)


def add_item(text: str, items: ListValue, written: str) -> str:
    """Return the text with a value added at the end of a list."""
    if not items.items:
        return _spliced(text, items.start + 1, items.start + 1, written)
    last = items.items[-1].end
    return _spliced(text, last, last, f", {written}")


def remove_field(text: str, field: Field) -> str:
    """Return the text without a field; its line goes with it when nothing else is on it."""
    start, end = field.start, field.end
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end + 1
    alone = not text[line_start:start].strip() and not text[end:line_end].strip()
    if alone:
        return _spliced(text, line_start, line_end, "")
    while end < len(text) and text[end] in " \t":
        end += 1
    return _spliced(text, start, end, "")


def remove_item(text: str, items: ListValue, index: int) -> str:
    """Return the text without one item of a list, and without the comma that parted it from its neighbour."""
    item = items.items[index]
    if index + 1 < len(items.items):
        return _spliced(text, item.start, items.items[index + 1].start, "")
    start = items.items[index - 1].end if index > 0 else item.start
    return _spliced(text, start, item.end, "")


def _spliced(text: str, start: int, end: int, written: str) -> str:
    return text[:start] + written + text[end:]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _appended(text: str, written: str) -> str:
    """Return a file with a field at its end, with a final newline where the file had one."""
    newline = _newline(text)
    if not text.strip():
        return text + written + newline
    if text.endswith("\n"):
        return text + written + newline
    return text + newline + written


def _added_inline(text: str, parent: TextMessage, written: str) -> str:
    if not parent.fields:
        return _spliced(text, parent.inner_start, parent.inner_end, f" {written} ")
    at = parent.fields[-1].end
    comma = "," if text[at - 1] == "," else ""
    return _spliced(text, at, at, f" {written}{comma}")


def _added_line(text: str, parent: TextMessage, written: str) -> str:
    """Add a line after the line of the last field, or after the opening bracket's."""
    at = parent.fields[-1].end if parent.fields else parent.inner_start
    line_end = text.find("\n", at)
    if not 0 <= line_end < parent.inner_end:
        line_end = at
    elif text[line_end - 1] == "\r":
        line_end -= 1
    return _spliced(text, line_end, line_end, _newline(text) + _indent(text, parent) + written)


def _indent(text: str, parent: TextMessage) -> str:
    """Return the indentation of the parent's fields, else one step more than the line that closes it."""
    for field in reversed(parent.fields):
        before = _line_before(text, field.start)
        if not before.strip():
            return before
    closing = re.match(r"[ \t]*", _line_before(text, parent.inner_end))
    return (closing[0] if closing else "") + _INDENT


def _line_before(text: str, at: int) -> str:
    return text[text.rfind("\n", 0, at) + 1 : at]
