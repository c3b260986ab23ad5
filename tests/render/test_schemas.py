from __future__ import annotations

import json

import jsonschema
import pytest

from diagnostics.render.json_head import schema_text
from tests.render.schemas import NAMES, closed, undescribed

each = pytest.mark.parametrize("name", NAMES)


@each
def test_every_property_has_a_description(name: str) -> None:
    assert not list(undescribed(json.loads(schema_text(name))))


def test_a_property_without_a_description_is_noticed() -> None:
    pair = {"items": {"properties": {"a": {"description": "A."}, "b": {"type": "null"}, "c": {"$ref": "#/$defs/c"}}}}

    assert list(undescribed({**pair, "$defs": {"c": {"description": "C."}}})) == ["b"]
    assert list(undescribed({**pair, "$defs": {"c": {}}})) == ["b", "c"]


@each
def test_every_schema_is_valid_and_has_an_identifier_and_examples_of_its_kinds(name: str) -> None:
    found = json.loads(schema_text(name))
    jsonschema.Draft202012Validator.check_schema(found)
    kinds = found.get("oneOf", ["only"])

    assert found["$id"] == f"urn:triton-diagnostics:schema:{name}:1"
    assert len(found["examples"]) == len(kinds)
    for example in found["examples"]:
        jsonschema.validate(example, closed(schema_text(name)))
        jsonschema.validate(example, found)


def test_an_example_with_a_key_that_is_not_described_is_noticed() -> None:
    (example,) = json.loads(schema_text("lint"))["examples"]

    for part in (example, example["counts"], example["problems"][0]["fix"], example["waived"][0]):
        part["unheard"] = 1
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(example, closed(schema_text("lint")))
        del part["unheard"]
