"""No credential gets into a recording: each body is cleaned before it is written.

`Anonymizer`, for those who share a recording with strangers, goes further and keeps only what it knows.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache

from diagnostics.settings.addresses import REDACTED
from diagnostics.wire.anonymize import Anonymizer
from diagnostics.wire.json_body import json_value
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.secret_shapes import names_a_secret, scrub

__all__ = ["REDACTED", "Anonymizer", "redact"]

_TEXT = frozenset({BodyKind.LOG, BodyKind.REPOSITORY, BodyKind.CLIENT})
_TENSOR_MAPS = frozenset({"input_map", "output_map", "inputMap", "outputMap"})
"""Their keys are names of tensors: `TOKEN` is text there."""
# Not `password: 123`, in a page that is no metrics page.
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*+(?<!:)(?:\{.*\})?) ([0-9.eE+-]+|[+-]?Inf|Na[nN])", re.ASCII)
_REMEMBERED_LENGTH = 2000
"""Characters of the longest line of metrics whose cleaning is kept: the cache stays below 80 MB."""
_NAME_KEYS, _VALUE_KEYS = ("key", "name"), ("value", "string_value", "stringValue")


def redact(scrape: Scrape) -> Scrape:
    """Return `scrape` without the values of secrets, or `scrape` itself when it holds none.

    Secrets are known by the name of their key, label, parameter, flag or header, and by their shape: bearer
    and basic credentials, user info in URLs, keys of the large clouds and forges, private key blocks.
    A body that is binary (a protobuf trace) cannot be cleaned and is left out, with the reason.
    """
    server, name = scrub(scrape.server), scrub(scrape.name)
    error = None if scrape.error is None else scrub(scrape.error)
    body = scrape.body
    if body is not None:
        try:
            body = _clean(body, scrape.kind)
        except UnicodeDecodeError:
            body, error = None, "left out: a binary body cannot be searched for secrets"
    if (server, name, error, body) == (scrape.server, scrape.name, scrape.error, scrape.body):
        return scrape
    return replace(scrape, server=server, name=name, error=error, body=body)


def _clean(body: bytes, kind: BodyKind) -> bytes:
    text = body.decode()
    if kind in (BodyKind.METRICS, BodyKind.DCGM):
        return "\n".join(map(_clean_line, text.split("\n"))).encode()
    if kind in _TEXT:
        return scrub(text).encode()
    try:
        value = json_value(text)
        cleaned = _clean_value(value)
    except (ValueError, RecursionError):
        return scrub(text).encode()
    return body if cleaned == value else json.dumps(cleaned).encode()


def _clean_line(line: str) -> str:
    """Clean a line of metrics. Series repeat from scrape to scrape, so that their cleaning is remembered."""
    sample = _SAMPLE.fullmatch(line)
    if sample is None or len(line) > _REMEMBERED_LENGTH:
        return scrub(line)
    return f"{_clean_series(sample[1])} {sample[2]}"


@lru_cache(maxsize=20_000)
def _clean_series(series: str) -> str:
    return scrub(series)


def _clean_value(value: object) -> object:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return _clean_list(value)
    if isinstance(value, dict):
        return _clean_named({scrub(key): _clean_item(key, item) for key, item in value.items()})
    return value


def _clean_item(key: str, item: object) -> object:
    if key in _TENSOR_MAPS:
        return item
    return _blank(item) if names_a_secret(key) else _clean_value(item)


def _clean_list(values: list[object]) -> list[object]:
    """Clean each item; the one after a flag such as `--api-key` is its value."""
    cleaned: list[object] = []
    for before, value in zip([None, *values], values, strict=False):
        is_value = isinstance(before, str) and before.startswith("-") and names_a_secret(before)
        cleaned.append(_blank(value) if is_value else _clean_value(value))
    return cleaned


def _clean_named(fields: dict[str, object]) -> dict[str, object]:
    """Clean `{"key": "api_key", "value": …}`, the shape of OTLP attributes and environment variables."""
    named = any(isinstance(name := fields.get(key), str) and names_a_secret(name) for key in _NAME_KEYS)
    if not named:
        return fields
    return {key: _blank(item) if key in _VALUE_KEYS else item for key, item in fields.items()}


def _blank(value: object) -> object:
    """Return `value` with its shape kept, so that the body still parses, and every string and number gone."""
    if isinstance(value, dict):
        return {key: _blank(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_blank(item) for item in value]
    return value if value is None or isinstance(value, bool) or value == "" else REDACTED
