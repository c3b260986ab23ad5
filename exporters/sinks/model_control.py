"""Triton's model repository extension: loads a model with a configuration of the caller's.

Sources: KServe's extension "model repository"; Triton's documentation, `extension_model_repository.md` (the parameter
`config` of a load, which stands in place of `config.pbtxt` until the next load or restart).
"""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.parse import quote

from diagnostics.errors import CollectError
from diagnostics.settings.addresses import REDACTED
from exporters.sources.access import SourceOptions
from exporters.sources.http import HttpReader, ReadFailure

# Seconds: an engine is read from a disk, and warmed up, before the answer.
LOADS_WITHIN = 600.0
_EXPLICIT = "start the server with --model-control-mode=explicit, or apply the patch to its repository"


class TritonModelControl:
    """Loads models of one server over HTTP. `url` is its endpoint, without a trailing slash."""

    def __init__(self, url: str, options: SourceOptions, loads_within: float = LOADS_WITHIN) -> None:
        """`url` is the server's HTTP endpoint."""
        self.url = url.rstrip("/")
        self._reading = HttpReader(options)
        self._loading = HttpReader(replace(options, timeout=loads_within))

    def config(self, model: str) -> bytes:
        """Return the configuration that is served, as JSON.

        Raises:
            CollectError: the server does not answer, does not serve the model, or repeats our credentials in it.

        """
        try:
            served = self._reading.read("GET", f"{self.url}/v2/models/{quote(model, safe='')}/config")
        except ReadFailure as failure:
            raise CollectError(f"its configuration was not read: {failure.reason}", where=model) from None
        if REDACTED.encode() in served:  # it would be loaded so
            hint = "use other credentials for the server than for its models"
            raise CollectError("its configuration holds the credentials of this command", where=model, hint=hint)
        return served

    def load(self, model: str, config: bytes) -> None:
        """Load a model with this configuration; returns when it is ready.

        Raises:
            CollectError: the server does not answer, refuses, or could not load it.

        """
        body = json.dumps({"parameters": {"config": config.decode()}}).encode()
        address = f"{self.url}/v2/repository/models/{quote(model, safe='')}/load"
        try:
            self._loading.read("POST", address, body)
        except ReadFailure as failure:
            hint = _EXPLICIT if "polling is" in failure.reason or "explicit" in failure.reason else ""
            raise CollectError(f"it was not loaded: {failure.reason}", where=model, hint=hint) from None
