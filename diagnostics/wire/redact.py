"""What a secret looks like: by the name it goes under, and by its own shape.

The field is full of harmless tokens and keys (`eos_token`, `tokens_per`), so a name is judged by its words.
When in doubt a value is taken for a secret: a lost word in a log costs less than a leaked credential.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from diagnostics.settings.addresses import REDACTED, without_credentials
from diagnostics.wire.anonymize import Anonymizer
from diagnostics.wire.exposition import MOST_LINES
from diagnostics.wire.json_body import json_value
from diagnostics.wire.records import BodyKind, Scrape

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = re.compile(
    r"secrets?|passwords?|passwd|passphrase|passcode|pwd|credentials?|creds|authorization|auth|cookie"
    r"|apikey|secretkey|accesskey|privatekey|authtoken|accesstoken|jwt|dsn|sig"
)
_SECRET_PAIRS = re.compile(
    r"(?:api|access|private|secret|account|signing|encryption|auth|ssh|master|license|storage|client|service"
    r"|shared) keys?|(?:api|access|auth|refresh) tokens?|connection string|(?:amz|goog) signature"
)
_TEXT_TOKENS = re.compile(
    r"(?:eos|bos|pad|end|start|stop|unk|mask|sep|cls|per|first|last|next|max|min|num|image|draft|sink|special"
    r"|decoder|prompt|input|output|sampled|forced|new|context|generated|inter|total|bad) token"
)
"""Where `token` is a piece of text and not a credential."""

# A search begins again at every character, so that a run is entered at its start only, or scanned for a bounded length.
_ASSIGNED = re.compile(r"""(?<![A-Za-z0-9_.-])[0-9_.-]*+(?P<name>[A-Za-z][A-Za-z0-9_.-]*+)\\?["']?\s*+[=:]\s*+""")
_VALUE = re.compile(
    r"""\\"(?:\\\\\\"|[^"\\]|\\(?!"))*+(?:\\")?|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?|[^\s"',;&(){}\[\]]++"""
)
_HEADER = re.compile(r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\s*:\s*)(?=[^\s\"'{[])[^\"'\n]+")
_FLAG = re.compile(r"(?<!\S)--?(?P<name>[A-Za-z][A-Za-z0-9_-]*+)[ \t]+(?P<value>[^\s-]\S*)")
_PARAMETER = re.compile(
    r'(?P<tensors>(?:in|out)put_map\s*+:?\s*+[\[{\s]*+)?(?P<start>key\s*+:?\s*+"(?P<name>[^"\\]*+)"\s*+,?\s*+'
    r'value\s*+:?\s*+(?:\{\s*+)?(?:string_value\s*+:?\s*+)?)"(?:[^"\\]|\\.)*+"'
)
_SCHEME = re.compile(r"\b((?i:bearer)\s+|(?i:basic|digest|token)\s+(?=[a-z._~+/-]*[0-9A-Z=]))[A-Za-z0-9._~+/=-]{8,}")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*-----|\Z)", re.S)
_KNOWN_KEYS = re.compile(
    r"\b(?:(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}"  # AWS
    r"|AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{10,}|GOCSPX-[0-9A-Za-z_-]{20,}"  # Google
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,}"  # forges
    r"|hf_[A-Za-z0-9]{20,}|nvapi-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9_-]{20,}|xox[abeprs]-[A-Za-z0-9-]{10,}"
    r"|eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]++)*+)"  # a signed JSON token, or the start of one
)

_REMEMBERED_LENGTH = 200
"""Characters of the longest name whose answer is kept: the cache is bounded by bytes, not only by entries."""
# Every text that a rule changes holds one of these; most of a recording does not, and is searched once for all rules.
_TELLTALES = (
    *("secret", "pass", "pwd", "cred", "auth", "cookie", "key", "token", "jwt", "dsn", "sig", "connection", "@"),
    *("bearer", "basic", "digest", "akia", "asia", "agpa", "aida", "aroa", "aiza", "ya29.", "gocspx", "github_"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "hf_", "nvapi-", "sk-", "xox", "eyj"),
)


def names_a_secret(name: str) -> bool:
    """Return whether a key, label, parameter or variable of this name holds a credential."""
    return _names_a_secret(name) if len(name) <= _REMEMBERED_LENGTH else _names_a_secret.__wrapped__(name)


@lru_cache(maxsize=4096)
def _names_a_secret(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    if any(map(_SECRET_WORDS.fullmatch, words)):
        return True
    pairs = [f"{first} {second}" for first, second in pairwise(words)]
    if any(map(_SECRET_PAIRS.fullmatch, pairs)):
        return True
    return words[-1:] == ["token"] and not (pairs and _TEXT_TOKENS.fullmatch(pairs[-1]))


def _may_hold_secrets(text: str) -> bool:
    lowered = text.lower()
    return any(sign in lowered for sign in _TELLTALES)


def without_secret(name: str, value: str) -> str:
    """Return the value of a setting of this name without the secret that it is or holds."""
    return REDACTED if value and names_a_secret(name) else scrub(value)


def scrub(text: str) -> str:
    """Return `text` with every value that is named as a secret, or looks like one, replaced."""
    if not _may_hold_secrets(text):
        return text
    text = scrub_shapes(text)
    text = _PARAMETER.sub(_scrub_parameter, text)
    text = _FLAG.sub(_scrub_flag, text)
    return _scrub_assignments(text)


def scrub_shapes(text: str) -> str:
    """Return `text` without what looks like a secret, whatever its name: for our own messages, which name many."""
    text = _PRIVATE_KEY.sub(REDACTED, text)
    text = without_credentials(text)
    text = _HEADER.sub(rf"\1\2{REDACTED}", text)
    text = _SCHEME.sub(rf"\1{REDACTED}", text)
    return _KNOWN_KEYS.sub(REDACTED, text)


def _scrub_parameter(found: re.Match[str]) -> str:
    """Clean a text-format map entry; the keys of an ensemble's maps are tensors."""
    if found["tensors"] or not names_a_secret(found["name"]):
        return found[0]
    return f'{found["start"]}"{REDACTED}"'


def _scrub_flag(found: re.Match[str]) -> str:
    if not names_a_secret(found["name"]):
        return found[0]
    return found[0].removesuffix(found["value"]) + _blank(found["value"])


def _scrub_assignments(text: str) -> str:
    """Clean `name=value` and `name: value`. A harmless name's value is looked into, too: `env: TOKEN=…`."""
    parts, position = [], 0
    for found in _ASSIGNED.finditer(text):
        if found.start("name") < position or not names_a_secret(found["name"]):
            continue
        if value := _VALUE.match(text, found.end()):
            parts += [text[position : found.end()], _blank(value[0])]
            position = value.end()
    return "".join([*parts, text[position:]])


def _blank(value: str) -> str:
    """Return what stands for `value`, in its quotes; a number in a log is a value as any other."""
    mark = '\\"' if value.startswith('\\"') else value[:1] if value[:1] in ("'", '"') else ""
    return f"{mark}{REDACTED}{mark}"


_MOST_LINES = {BodyKind.METRICS: MOST_LINES, BodyKind.DCGM: MOST_LINES}
_AS_IT_IS = ("utf-8", "surrogateescape")
_BINARY = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
"""Control characters that no log has: the escape of colours is one that they have."""
_TEXT = frozenset({BodyKind.LOG, BodyKind.REPOSITORY, BodyKind.CLIENT})
_TENSOR_MAPS = frozenset({"input_map", "output_map", "inputMap", "outputMap"})
"""Their keys are names of tensors: `TOKEN` is text there."""
# Not `password: 123`, in a page that is no metrics page.
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*+(?<!:)(?:\{.*\})?) ([0-9.eE+-]+|[+-]?Inf|Na[nN])", re.ASCII)
_REMEMBERED_BODY_LENGTH = 2000
"""Characters of the longest line of metrics whose cleaning is kept: the cache stays below 80 MB."""
_NAME_KEYS, _VALUE_KEYS = ("key", "name"), ("value", "string_value", "stringValue")


def redact(scrape: Scrape) -> Scrape:
    """Return `scrape` without the values of secrets, or `scrape` itself when it holds none.

    Secrets are known by the name of their key, label, parameter, flag or header, and by their shape: bearer
    and basic credentials, user info in URLs, keys of the large clouds and forges, private key blocks.
    What is binary cannot be searched and is left out: a body (a protobuf trace) with the reason, of text those lines.
    """
    server, name = scrub(scrape.server), scrub(scrape.name)
    error = None if scrape.error is None else scrub(scrape.error)
    body = scrape.body
    if body is not None and body.count(b"\n") > _MOST_LINES.get(scrape.kind, math.inf):
        body, error = None, "left out: more lines than a metrics page may have"
    if body is not None:
        try:
            body = _clean(body, scrape.kind)
        except UnicodeDecodeError:
            body, error = None, "left out: a binary body cannot be searched for secrets"
    if (server, name, error, body) == (scrape.server, scrape.name, scrape.error, scrape.body):
        return scrape
    return replace(scrape, server=server, name=name, error=error, body=body)


def _clean(body: bytes, kind: BodyKind) -> bytes:
    if kind in (BodyKind.METRICS, BodyKind.DCGM):
        text = _text_of(body)
        if not _may_hold_secrets(text):
            return text.encode(*_AS_IT_IS)
        return "\n".join(map(_clean_line, text.split("\n"))).encode(*_AS_IT_IS)
    if kind in _TEXT:
        return scrub(_text_of(body)).encode(*_AS_IT_IS)
    try:
        return _clean_document(body)
    except (ValueError, RecursionError):
        pass
    lines = body.decode().split("\n")
    return "\n".join(map(_clean_line_of_documents, lines)).encode()


def _text_of(body: bytes) -> str:
    """Return the text of a body, bytes that are no character's kept as they are; lines that are binary are blank."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        lines = (line.decode(*_AS_IT_IS) for line in body.split(b"\n"))
        return "\n".join("" if _BINARY.search(line) and not _is_utf8(line) else line for line in lines)


def _is_utf8(line: str) -> bool:
    return not any("\udc80" <= char <= "\udcff" for char in line)


def _clean_document(body: bytes) -> bytes:
    value = json_value(body)
    cleaned = _clean_value(value)
    return body if cleaned == value else json.dumps(cleaned).encode()


def _clean_line_of_documents(line: str) -> str:
    """Clean a line of a file that holds one JSON document a line, as the Collector writes export requests."""
    try:
        return _clean_document(line.encode()).decode()
    except (ValueError, RecursionError):
        return scrub(line)


def _clean_line(line: str) -> str:
    """Clean a line of metrics. Series repeat from scrape to scrape, so that their cleaning is remembered."""
    if not _may_hold_secrets(line):
        return line
    sample = _SAMPLE.fullmatch(line)
    if sample is None or len(line) > _REMEMBERED_BODY_LENGTH:
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
    return _blank_out(item) if names_a_secret(key) else _clean_value(item)


def _clean_list(values: list[object]) -> list[object]:
    """Clean each item; the one after a flag such as `--api-key` is its value."""
    cleaned: list[object] = []
    for before, value in zip([None, *values], values, strict=False):
        is_value = isinstance(before, str) and before.startswith("-") and names_a_secret(before)
        cleaned.append(_blank_out(value) if is_value else _clean_value(value))
    return cleaned


def _clean_named(fields: dict[str, object]) -> dict[str, object]:
    """Clean `{"key": "api_key", "value": …}`, the shape of OTLP attributes and environment variables."""
    named = any(isinstance(name := fields.get(key), str) and names_a_secret(name) for key in _NAME_KEYS)
    if not named:
        return fields
    return {key: _blank_out(item) if key in _VALUE_KEYS else item for key, item in fields.items()}


def _blank_out(value: object) -> object:
    """Return `value` with its shape kept, so that the body still parses, and every string and number gone."""
    if isinstance(value, dict):
        return {key: _blank_out(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_blank_out(item) for item in value]
    return value if value is None or isinstance(value, bool) or value == "" else REDACTED


__all__ = ["REDACTED", "Anonymizer", "redact"]
