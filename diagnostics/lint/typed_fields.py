"""The messages of a configuration with their types, as protobuf's parser walks through them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.lint.config_fields import ROOT, FieldType, fields_of, is_message
from diagnostics.lint.model_folder import ModelFolder, remembered
from diagnostics.tuning.pbtxt import Field, TextMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedMessage:
    """A message, and the name of its type: `ModelConfig` for the whole file, `{key,value}` for a map's entry."""

    type: str
    message: TextMessage

    @property
    def shown(self) -> str:
        """Return the type's name for people."""
        return "an entry of a map" if self.type.startswith("{") else self.type

    @property
    def types(self) -> Mapping[str, FieldType]:
        """Return the fields that there may be."""
        return fields_of(self.type)

    @property
    def known(self) -> Sequence[tuple[Field, FieldType]]:
        """Return the fields whose type is known, in order."""
        types = self.types
        return [(field, types[field.name]) for field in self.message.fields if field.name in types]

    def unknown(self) -> Iterator[Field]:
        """Yield the fields that there are not; a template is none."""
        types = self.types
        return (field for field in self.message.fields if field.name not in types and "${" not in field.name)


@remembered
def typed_messages(model: ModelFolder) -> tuple[TypedMessage, ...]:
    """Return the messages of known types, outer ones before what they hold; none where nothing can be read."""
    return tuple(_within(model.config.message, ROOT)) if model.config else ()


def _within(message: TextMessage, type_: str) -> Iterator[TypedMessage]:
    found = TypedMessage(type=type_, message=message)
    yield found
    for field, held in found.known:
        if is_message(held.type):
            for value in field.values():
                if isinstance(value, TextMessage):
                    yield from _within(value, held.type)
