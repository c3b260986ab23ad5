"""Recordings for strangers: an allow-list of fields, metric families and labels, and pseudonyms for names."""

from __future__ import annotations

import json
from dataclasses import replace

from diagnostics.errors import MalformedBody
from diagnostics.wire.anonymize_json import keep_allowed
from diagnostics.wire.anonymize_rules import ITERATIONS, RULES
from diagnostics.wire.anonymize_text import anonymize_config_file, anonymize_log, anonymize_metrics
from diagnostics.wire.failed_reads import public
from diagnostics.wire.json_body import json_value
from diagnostics.wire.pseudonyms import WITHHELD, Pseudonyms
from diagnostics.wire.records import BodyKind, Scrape

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
                return anonymize_config_file(body.decode(), self._names).encode() if is_config else b""
            case BodyKind.CLIENT:
                return b"".join(self._json(kind, line) + b"\n" for line in body.splitlines() if line.strip())
            case _:
                return self._json(kind, body)

    def _json(self, kind: BodyKind, body: bytes) -> bytes:
        value = json_value(body)
        if isinstance(value, dict) and "error" in value:  # an error's text may say anything
            raise ValueError(LEFT_OUT)
        return json.dumps(keep_allowed(value, RULES[kind], self._names)).encode()
