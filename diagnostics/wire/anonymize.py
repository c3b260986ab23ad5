"""JSON bodies cut down to what the rules allow."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from diagnostics.errors import MalformedBody
from diagnostics.wire.anonymize_rules import (
    ATTRIBUTES,
    CONFIG,
    ITERATIONS,
    PARAMETERS,
    RULES,
    TENSOR,
    WITHHELD,
    Pseudonyms,
    Rule,
    number,
    rule_for,
    setting,
    snake_case,
)
from diagnostics.wire.exposition import ExpositionReader, Series
from diagnostics.wire.failed_reads import public
from diagnostics.wire.json_body import json_value
from diagnostics.wire.log_wrappers import unwrapped
from diagnostics.wire.records import BodyKind, Scrape


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


# --- metrics

_FAMILIES = re.compile(r"(?:nv_|vllm:|trtllm[_:]|DCGM_FI_|process_)[a-zA-Z0-9_:]+", re.ASCII)
_LABELS = frozenset(
    {
        "version",
        "reason",
        "quantile",
        "le",
        "gpu",
        "GPU_I_ID",
        "engine",
        "request_type",
        "runtime_memory_type",
        "kv_cache_block_type",
        "inflight_batcher_specific_metric",
        "v1_specific_metric",
        "general_type",
        "disaggregated_serving_type",
        "response_metric_type",
        "finished_reason",
    }
)
_PLAIN = re.compile(r"[A-Za-z0-9_.+ -]{0,60}", re.ASCII)
_RENAMED: dict[str, Callable[[Pseudonyms, str], str]] = {
    "model": Pseudonyms.model,
    "model_name": Pseudonyms.model,
    "gpu_uuid": lambda names, value: names.of("GPU", value),
    "UUID": lambda names, value: names.of("GPU", value),
}


def anonymize_metrics(body: bytes, names: Pseudonyms) -> bytes:
    """Return the known families of `body` under pseudonyms, each value as it was; help texts go.

    Raises:
        MalformedBody: it is no metrics page.

    """
    snapshot = ExpositionReader().read(body)
    lines = [
        f"# TYPE {name} {kind}"
        for name, kind in snapshot.layout.types.items()
        if _FAMILIES.fullmatch(name) and kind.isalpha()
    ]
    pairs = zip(snapshot.layout.series, snapshot.values, strict=True)
    lines += [
        f"{_series(series, names)} {_number(value)}" for series, value in pairs if _FAMILIES.fullmatch(series.name)
    ]
    return ("\n".join(lines) + "\n").encode()


def _series(series: Series, names: Pseudonyms) -> str:
    labels = ",".join(_label(name, value, names) for name, value in series.labels.items())
    return f"{series.name}{{{labels}}}" if labels else series.name


def _label(name: str, value: str, names: Pseudonyms) -> str:
    if name in _LABELS and _PLAIN.fullmatch(value):
        return f'{name}="{value}"'
    if name in _RENAMED:
        return f'{name}="{_RENAMED[name](names, value)}"'
    return f'{names.of("label", name).replace("-", "_")}="{names.of("value", value)}"'


def _number(value: float) -> str:
    return repr(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)


# --- the server's log

_PREFIX = re.compile(r'([IWEF][0-9]{4} [0-9:.]+ [0-9]+ [a-z_0-9]+\.cc:[0-9]+\] "?)(.*?)("?)', re.ASCII)
_MODEL_WORD, _INSTANCE_WORD, _HOST_WORD = r"(?P<model>[^\s':]+)", r"(?P<instance>\S+)", r"(?P<host>\S+)"
_MESSAGES = tuple(
    re.compile(message)
    for message in (
        rf"loading: {_MODEL_WORD}:\d+",
        rf"successfully loaded '{_MODEL_WORD}'",
        rf"successfully unloaded '{_MODEL_WORD}' version \d+",
        rf"failed to load '{_MODEL_WORD}' version \d+: (?P<text>.*)",
        rf"failed to (?:load|poll) model '{_MODEL_WORD}': (?P<text>.*)",
        rf"Poll failed for model directory '{_MODEL_WORD}': (?P<text>.*)",
        rf"Model '{_MODEL_WORD}' \(version \d+\) has \d+ in-flight inferences",
        rf"TRITONBACKEND_ModelInitialize: {_MODEL_WORD} \(version \d+\)",
        rf"TRITONBACKEND_ModelInstanceInitialize: {_INSTANCE_WORD} \([CG]PU device \d+\)",
        rf"Started (?:GRPCInferenceService|HTTPService|Metrics Service) at {_HOST_WORD}:\d+",
        r"Waiting for in-flight requests to complete\.",
        r"Timeout \d+: Found \d+ (?:HTTP service connections|model versions that have in-flight inferences)",
        r"Timeout \d+: Found \d+ live models and \d+ in-flight non-inference requests",
        r"All models are stopped, unloading models",
        r"Collecting CPU metrics|CUDA memory pool disabled|Signal \(\d+\) received\.",
        r"Collecting metrics for GPU \d+: NVIDIA [A-Z0-9 -]{1,40}",
        r"(?:Pinned|CUDA) memory pool is created (?:at '0x[0-9a-f]+'|on device \d+) with size \d+",
        r"DCGM unable to start: DCGM initialization error",
    )
)


def anonymize_log(body: bytes, names: Pseudonyms) -> bytes:
    """Return the lines of `body` whose message is one of Triton's known ones, names replaced, without wrappers."""
    lines = (_log_line(line, names) for line, _ in unwrapped(body.decode("utf-8", "replace").splitlines()))
    return "".join(f"{line}\n" for line in lines if line).encode()


def _log_line(line: str, names: Pseudonyms) -> str | None:
    found = _PREFIX.fullmatch(line)
    start, message, end = found.groups() if found else ("", line, "")
    for known in _MESSAGES:
        if shape := known.fullmatch(message):
            return start + _renamed(shape, names) + end
    return None


def _renamed(shape: re.Match[str], names: Pseudonyms) -> str:
    text = shape[0]
    for group in reversed(shape.groupdict()):  # from the right, so that the spans of the others stay true
        first, last = shape.span(group)
        text = text[:first] + _stand_in(group, shape[group], names) + text[last:]
    return text


def _stand_in(group: str, value: str, names: Pseudonyms) -> str:
    match group:
        case "model":
            return names.model(value)
        case "instance":
            return names.instance(value)
        case "host":
            return names.of("host", value)
        case _:
            return WITHHELD


# --- config.pbtxt

_TOKEN = re.compile(
    r"(?P<comment>#[^\n]*)|(?P<space>\s+)|(?P<sign>[{}\[\]:,;<>])|(?P<template>\$\{[^}\s]*\})"
    r"""|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>[A-Za-z0-9_.+-]+)"""
)
_LITERAL = re.compile(r"true|false|[+-]?[0-9][0-9.eE+-]*f?|(?:KIND|TYPE|FORMAT|PRIORITY|MODEL|CONTROL)_[A-Z0-9_]+")
_ENUMS = frozenset({"REJECT", "DELAY"})
_MAP_KEYS = frozenset({"key", "value", "string_value"})


def anonymize_config_file(text: str, names: Pseudonyms) -> str:
    """Return a configuration in text format, comments gone and strings under the rules of its fields."""
    return "".join(_ConfigFile(names).tokens(text))


class _ConfigFile:
    """Where in a text-format message one is: enclosing fields, the last field, the last parameter's name."""

    def __init__(self, names: Pseudonyms) -> None:
        self._names = names
        self._enclosing: list[str] = []
        self._field = self._parameter = ""

    def tokens(self, text: str) -> Iterator[str]:
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            position = found.end() if found else position + 1
            if found and (sort := found.lastgroup):
                yield self._token(sort, found[0])

    def _token(self, sort: str, token: str) -> str:
        match sort:
            case "comment":
                return ""
            case "sign":
                self._move(token)
                return token
            case "template":
                return f"${{{WITHHELD}}}"
            case "string":
                return f'"{self._string(token[1:-1])}"'
            case "word":
                return self._word(token)
            case _:
                return token

    def _move(self, sign: str) -> None:
        if sign in "{<":
            self._enclosing.append(self._field)
        elif sign in "}>" and self._enclosing:
            self._field = self._enclosing.pop()

    def _word(self, word: str) -> str:
        if _LITERAL.fullmatch(word) or word in _ENUMS:
            return word
        self._field = word
        known = word in _MAP_KEYS or any(rule_for(CONFIG, parent, word) for parent in ("", self._parent()))
        return word if known else WITHHELD

    def _parent(self, level: int = 1) -> str:
        return self._enclosing[-level] if len(self._enclosing) >= level else ""

    def _string(self, value: str) -> str:
        maps = {self._parent(), self._parent(2)}
        if "parameters" in maps:
            return self._parameter_text(value)
        rule: Rule | None
        if tensors := maps & {"input_map", "output_map"}:
            rule = CONFIG[tensors.pop()]
        else:
            rule = rule_for(CONFIG, self._parent(), self._field)
        return (rule(self._names, value) if rule else None) or (value and WITHHELD)

    def _parameter_text(self, value: str) -> str:
        if self._field == "key":
            self._parameter = value
            return value if value in PARAMETERS else self._names.of("parameter", value)
        return setting(self._names, value) if self._parameter in PARAMETERS else WITHHELD


_FILES = frozenset({"config.pbtxt", ".keep"})
LEFT_OUT = "left out: the body could not be anonymized"


class Anonymizer:
    """Replaces the names of models, servers, hosts, GPUs and tensors, the same by the same in every body.

    What stays: every number of a known field or family, versions, states, settings with known values, the
    names of public backends and products, log lines of known shape. Everything else goes. A body that is not
    what its endpoint promises is left out, with the reason.
    """

    def __init__(self, seed: bytes) -> None:
        """Start with a seed to be thrown away after the recording: who has it can test guessed names."""
        self._names = Pseudonyms(seed)

    def server(self, name: str) -> str:
        """Return the pseudonym of a server, as its scrapes and the capture's manifest must have it."""
        return self._names.of("server", name)

    def apply(self, scrape: Scrape) -> Scrape:
        """Return `scrape` anonymized."""
        try:
            body = None if scrape.body is None else self._body(scrape.kind, scrape.name, scrape.body)
            error = None if scrape.error is None else public(scrape.error) or f"the read failed (details {WITHHELD})"
        except (MalformedBody, ValueError, RecursionError):
            body, error = None, LEFT_OUT
        return replace(scrape, server=self.server(scrape.server), name=self._name(scrape), body=body, error=error)

    def _name(self, scrape: Scrape) -> str:
        if scrape.kind is BodyKind.CONFIG:
            return self._names.model(scrape.name)
        model, *rest = scrape.name.split("/")
        return "/".join([self._names.model(model), *map(self._path_part, rest)])

    def _path_part(self, part: str) -> str:
        return part if part in _FILES or part.isdecimal() else self._names.of("file", part)

    def _body(self, kind: BodyKind, name: str, body: bytes) -> bytes:
        match kind:
            case BodyKind.METRICS if body.lstrip()[:1] == b"[":  # trtllm-serve's list of iterations
                return json.dumps(keep_allowed(json_value(body), ITERATIONS, self._names)).encode()
            case BodyKind.METRICS | BodyKind.DCGM:
                return anonymize_metrics(body, self._names)
            case BodyKind.LOG:
                return anonymize_log(body, self._names)
            case BodyKind.REPOSITORY:
                is_config = name.endswith("config.pbtxt")
                return (
                    anonymize_config_file(body.decode("utf-8", "replace"), self._names).encode() if is_config else b""
                )
            case BodyKind.CLIENT:
                return b"".join(self._json(kind, line) + b"\n" for line in body.splitlines() if line.strip())
            case _:
                return self._json(kind, body)

    def _json(self, kind: BodyKind, body: bytes) -> bytes:
        value = json_value(body)
        if isinstance(value, dict) and "error" in value:  # an error's text may say anything
            raise ValueError(LEFT_OUT)
        return json.dumps(keep_allowed(value, RULES[kind], self._names)).encode()
