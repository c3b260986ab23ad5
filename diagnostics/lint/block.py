"""Fields of a `config.pbtxt` as rules read them: what is written, what is left out, and what nobody knows yet.

A template field (`${name}`) may become anything: its value is unknown, and where one stands in the place of a field,
what else the block holds is unknown, too. Unknown is None; a field that is left out has the default that is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from diagnostics.lint.problem import SourceLocation, TextFile
from diagnostics.tuning.pbtxt import Field, ListValue, Scalar, TextMessage

_FLAGS = {"true": True, "True": True, "t": True, "1": True, "false": False, "False": False, "f": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A word or a string with its place; `value` is None where it holds template fields."""

    value: str | None
    written: str
    place: SourceLocation


@dataclass(frozen=True, kw_only=True)
class ConfigMessage:
    """A message of a configuration, or the whole file. Many rules ask the same of it, so it remembers its answers."""

    file: TextFile
    message: TextMessage

    @property
    def place(self) -> SourceLocation:
        """Return where the block begins; of a whole file, its first field."""
        fields = self.message.fields
        whole = self.message.start == self.message.inner_start
        return self.file.place(fields[0].start if whole and fields else self.message.start)

    @cached_property
    def complete(self) -> bool:
        """Return whether no template stands in the place of a field, which could become any field."""
        return not any("${" in field.name for field in self.message.fields)

    def at(self, name: str) -> SourceLocation:
        """Return the place of the last field of this name, that of the block where there is none."""
        found = self._fields.get(name, ())
        return self.file.place(found[-1].start) if found else self.place

    def times(self, name: str) -> int:
        """Return how often the field is written."""
        return len(self._fields.get(name, ()))

    def has(self, name: str) -> bool | None:
        """Return whether the field is written; None when a template may become it."""
        return True if self._fields.get(name, ()) else (False if self.complete else None)

    def text(self, name: str, default: str = "") -> str | None:
        """Return a string or an enumeration's word, `default` when it is left out, None when it is unknown."""
        scalar = self._scalar(name)
        if scalar is None:
            return default if self.has(name) is False else None
        return None if scalar.templates else scalar.value

    def integer(self, name: str, default: int = 0) -> int | None:
        """Return a whole number, `default` when it is left out, None when it is unknown or no number."""
        scalar = self._scalar(name)
        if scalar is None:
            return default if self.has(name) is False else None
        return scalar.integer()

    def flag(self, name: str, default: bool = False) -> bool | None:
        """Return a flag, `default` when it is left out, None when it is unknown or no flag."""
        scalar = self._scalar(name)
        if scalar is None:
            return default if self.has(name) is False else None
        return _FLAGS.get(scalar.text)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return the numbers of a repeated field, none when it is left out, None when one of them is unknown."""
        scalars = [v for field in self._fields.get(name, ()) for v in field.values() if isinstance(v, Scalar)]
        numbers = [number for scalar in scalars if (number := scalar.integer()) is not None]
        known = len(numbers) == len(scalars) and (bool(scalars) or self.has(name) is not None)
        return tuple(numbers) if known else None

    def block(self, name: str) -> ConfigMessage | None:
        """Return the last message of this name; None when there is none, or a template is in its place (`has`)."""
        found = self.blocks(name)
        return found[-1] if found else None

    def blocks(self, name: str) -> tuple[ConfigMessage, ...]:
        """Return the messages of this name, whether written as repeated fields or as a list."""
        if name not in self._blocks:
            values = (value for field in self._fields.get(name, ()) for value in field.values())
            messages = (value for value in values if isinstance(value, TextMessage))
            self._blocks[name] = tuple(ConfigMessage(file=self.file, message=message) for message in messages)
        return self._blocks[name]

    def texts(self, name: str) -> tuple[Text, ...]:
        """Return the strings of a repeated field in order."""
        scalars = [v for field in self._fields.get(name, ()) for v in field.values() if isinstance(v, Scalar)]
        return tuple(self._text(scalar) for scalar in scalars)

    def map(self, name: str) -> Mapping[str, Text]:
        """Return a map from strings to strings, or to `parameters`' messages with a `string_value`, in order.

        Entries whose key is unknown are left out; a value that is left out is the empty string.
        """
        if name not in self._maps:
            keys = [(entry.text("key"), entry) for entry in self.blocks(name)]
            self._maps[name] = {key: entry._entry() for key, entry in keys if key}
        return self._maps[name]

    @cached_property
    def _fields(self) -> Mapping[str, list[Field]]:
        found: dict[str, list[Field]] = {}
        for field in self.message.fields:
            found.setdefault(field.name, []).append(field)
        return found

    @cached_property
    def _blocks(self) -> dict[str, tuple[ConfigMessage, ...]]:
        return {}

    @cached_property
    def _maps(self) -> dict[str, Mapping[str, Text]]:
        return {}

    def _scalar(self, name: str) -> Scalar | None:
        scalars = [v for field in self._fields.get(name, ()) for v in field.values() if isinstance(v, Scalar)]
        return scalars[-1] if scalars else None

    def _entry(self) -> Text:
        inner = self.block("value")
        scalar = inner._scalar("string_value") if inner else self._scalar("value")
        return self._text(scalar) if scalar else Text(value="", written="", place=self.place)

    def _text(self, scalar: Scalar) -> Text:
        value = None if scalar.templates else scalar.value
        return Text(value=value, written=scalar.text, place=self.file.place(scalar.start))


def templates(block: ConfigMessage) -> tuple[Text, ...]:
    """Return every value and field within the block that holds a template field, in order."""
    if "${" not in block.file.text:
        return ()
    found: list[Text] = []
    stack: list[Field | TextMessage | ListValue | Scalar] = [block.message]
    while stack:
        node = stack.pop()
        match node:
            case TextMessage():
                stack.extend(reversed(node.fields))
            case ListValue():
                stack.extend(reversed(node.items))
            case Field():
                if "${" in node.name:
                    found.append(Text(value=None, written=node.name, place=block.file.place(node.start)))
                stack.append(node.value)
            case Scalar() if node.templates:
                found.append(Text(value=None, written=node.text, place=block.file.place(node.start)))
    return tuple(found)
