"""Edits of text format in place: each takes a text and returns the text with one thing changed.

Comments, order, indentation and line endings of everything else stay as they are.
"""

from __future__ import annotations

import re

from diagnostics.tuning.pbtxt import Field, ListValue, TextMessage, Value

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
