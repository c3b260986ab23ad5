"""JSON bodies cut down to what the rules allow."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics.wire.anonymize_rules import (
    ATTRIBUTES,
    CONFIG,
    PARAMETERS,
    TENSOR,
    Rule,
    number,
    rule_for,
    setting,
    snake_case,
)
from diagnostics.wire.pseudonyms import Pseudonyms


def keep_allowed(value: object, rules: Mapping[str, Rule], names: Pseudonyms) -> object:
    """Return `value` with what `rules` allow."""
    return _keep(value, rules, names, "", number)


def _keep(value: object, rules: Mapping[str, Rule], names: Pseudonyms, key: str, rule: Rule) -> object:
    if isinstance(value, str):
        return rule(names, value)
    if isinstance(value, list):
        if key == "attributes":
            return _attributes(value, names)
        kept = (_keep(item, rules, names, key, rule) for item in value)
        return [item for item in kept if item is not None]
    if isinstance(value, dict):
        return _keep_fields(value, rules, names, key)
    return value


def _keep_fields(
    fields: dict[str, object], rules: Mapping[str, Rule], names: Pseudonyms, parent: str
) -> dict[str, object]:
    if rules is CONFIG and snake_case(parent) in ("input_map", "output_map"):
        return {_tensor(names, key): _tensor(names, item) for key, item in fields.items()}
    if rules is CONFIG and parent == "parameters":
        return {key: _setting(item, names) for key, item in fields.items() if key in PARAMETERS}
    kept = {}
    for key, item in fields.items():
        rule = rule_for(rules, parent, key)
        if rule and ((new := _keep(item, rules, names, key, rule)) is not None or item is None):
            kept[key] = new
    return kept


def _tensor(names: Pseudonyms, value: object) -> str:
    return TENSOR(names, str(value)) or ""


def _setting(item: object, names: Pseudonyms) -> object:
    if not isinstance(item, dict):
        return {}
    return {
        key: setting(names, text)
        for key, text in item.items()
        if snake_case(key) == "string_value" and isinstance(text, str)
    }


def _attributes(attributes: list[object], names: Pseudonyms) -> list[object]:
    kept: list[object] = []
    for attribute in attributes:
        key = attribute.get("key") if isinstance(attribute, dict) else None
        rule = ATTRIBUTES.get(key) if isinstance(key, str) else None
        if rule and isinstance(attribute, dict) and isinstance(value := attribute.get("value"), dict):
            kinds = {kind: item for kind, item in value.items() if kind.endswith("Value")}
            kept.append({"key": key, "value": {k: _keep(v, {}, names, "", rule) for k, v in kinds.items()}})
    return kept
