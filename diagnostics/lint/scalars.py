"""What protobuf's parser takes for a value of each type.

Source: protobuf, `text_format.cc` (`ConsumeFieldValue`), as Triton sets it; each case was seen on Triton 2.51.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from diagnostics.lint.config_fields import WHOLE_NUMBERS, words_of
from diagnostics.tuning.pbtxt import Scalar

_FLAGS = frozenset({"true", "True", "t", "false", "False", "f"})
_QUOTES = ("'", '"')
_FLOATS = frozenset({"float", "double"})
_FLOAT = re.compile(r"-?\s*(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?f?|inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_ESCAPES = re.compile(r"\\(?:[abfnrtv\\?'\"]|[0-7]|x[0-9a-fA-F]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")
_ESCAPED = re.compile(r"\\.", re.DOTALL)


def refusal(scalar: Scalar, type_: str) -> str:
    """Return what a field of this type takes instead of the value, empty where it takes it."""
    if scalar.templates:
        return ""
    if type_ in WHOLE_NUMBERS:
        return _whole_number(scalar, type_)
    if type_ == "string":
        return _string(scalar.text)
    if type_ == "bool":
        flag = scalar.text in _FLAGS or (_signless(scalar) and scalar.integer() in (0, 1))
        return "" if flag else "takes true or false"
    if type_ in _FLOATS:
        return "" if _FLOAT.fullmatch(scalar.text) else "takes a number"
    return _word(scalar, type_)


def nearest(scalar: Scalar, type_: str) -> str:
    """Return the word of an enumeration that is most like the value; empty where none is."""
    near = get_close_matches(scalar.value.upper(), words_of(type_), n=1)
    return near[0] if near else ""


def _string(text: str) -> str:
    if not text.startswith(_QUOTES):
        return "takes a text in quotes"
    escapes = _ESCAPED.finditer(text) if "\\" in text else ()
    wrong = [found[0] for found in escapes if not _ESCAPES.match(text, found.start())]
    return f"may not hold {wrong[0]}, which is no escape of text format" if wrong else ""


def _whole_number(scalar: Scalar, type_: str) -> str:
    number, held = scalar.integer(), WHOLE_NUMBERS[type_]
    if number is None or (held.start == 0 and not _signless(scalar)):
        return "takes a whole number" if held.start else "takes a whole number without a sign"
    return "" if number in held else f"takes {held.start} to {held.stop - 1}"


def _word(scalar: Scalar, type_: str) -> str:
    words = words_of(type_)
    if not words or scalar.text in words:
        return ""
    number = scalar.integer()
    if number is not None and number in WHOLE_NUMBERS["int32"]:  # the parser keeps numbers that have no word yet
        return ""
    listed = ", ".join(words[1:] if words[0] == "TYPE_INVALID" else words)
    return f"takes one of {listed}"


def _signless(scalar: Scalar) -> bool:
    return not scalar.text.startswith("-")
