"""The text of a `config.pbtxt` under change, and how one field of it gets a value."""

from __future__ import annotations

from dataclasses import dataclass, field

from diagnostics.tuning.changes import SettingValue
from diagnostics.tuning.editing import add_field, remove_field, replace_value
from diagnostics.tuning.pbtxt import Field, ListValue, Scalar, TextMessage, Value, parse

_BOOLEANS = {"True": "true", "t": "true", "False": "false", "f": "false"}


@dataclass(slots=True, kw_only=True)
class Draft:
    """The text under change. `path` names it in messages; `notes` gather what the reader must know."""

    text: str
    path: str
    notes: list[str] = field(default_factory=list)

    @property
    def root(self) -> TextMessage:
        return parse(self.text, self.path)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def literal(value: SettingValue) -> str:
    """Return how text format writes a value of a scalar field or of a list of them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[ " + ", ".join(map(str, value)) + " ]"
    return str(value)


def set_field(draft: Draft, parent: TextMessage, name: str, written: str, path: str) -> None:
    """Give a field one value: replace the first occurrence, remove the others, or add it."""
    present = parent.all(name)
    if not present:
        separator = " " if written.startswith("{") else ": "
        draft.text = add_field(draft.text, parent, f"{name}{separator}{written}")
        return
    if _same(present, written):
        return
    for other in reversed(present[1:]):
        draft.text = remove_field(draft.text, other)
    note_templates(draft, present, path, written)
    value = present[0].value
    colon = "" if present[0].colon or written.startswith("{") else ": "
    draft.text = replace_value(draft.text, value, colon + written)


def _same(present: tuple[Field, ...], written: str) -> bool:
    """Say whether fields already hold what would be written, however they are spelled."""
    wanted = parse(f"x: {written}").fields
    return [_meaning(v) for f in present for v in f.values()] == [_meaning(v) for f in wanted for v in f.values()]


def _meaning(value: Value) -> object:
    if isinstance(value, Scalar):
        number = value.integer()
        return _BOOLEANS.get(value.value, value.value) if number is None else number
    if isinstance(value, ListValue):
        return [_meaning(item) for item in value.items]
    return [(f.name, [_meaning(v) for v in f.values()]) for f in value.fields]


def note_templates(draft: Draft, fields: tuple[Field, ...], path: str, written: str) -> None:
    """Note the template fields that hold what is about to be overwritten: theirs is the place to change."""
    names = [name for f in fields for name in _templates(f.value)]
    value = written.strip('[]" ')
    for name in dict.fromkeys(names):
        draft.note(
            f"{path} is filled from the template field ${{{name}}}: give {name} the value {value} there, "
            "or the next fill loses this change"
        )


def _templates(value: Value) -> tuple[str, ...]:
    if isinstance(value, Scalar):
        return value.templates
    if isinstance(value, ListValue):
        return tuple(name for item in value.items for name in _templates(item))
    return tuple(name for f in value.fields for name in _templates(f.value))


def remove_all(draft: Draft, parent: TextMessage, name: str, path: str) -> None:
    """Remove every field of this name."""
    present = parent.all(name)
    note_templates(draft, present, path, "none")
    for old in reversed(present):
        draft.text = remove_field(draft.text, old)
