"""OpenAI's API as load is sent to it: chat and text completions, whole or token by token.

Sources: OpenAI's API reference (`/v1/models`, `/v1/chat/completions`, `/v1/completions`, `stream_options`) and the
request models of vLLM, SGLang, trtllm-serve and Dynamo, which add `min_tokens` and `ignore_eos`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import aiohttp

from diagnostics.errors import CollectError, UsageError
from diagnostics.loadgen.http_transports import (
    JSON_HEADERS,
    HttpTransport,
    Prepared,
    error_text,
    event_data,
    whole_body,
)
from diagnostics.loadgen.transport import Endpoint, Reads, Reply, Values, input_json, refused
from diagnostics.wire.json_body import json_value
from exporters.sources.access import SourceOptions
from exporters.sources.http import HttpReader, ReadFailure

_PATHS = {"chat": "chat/completions", "completions": "completions"}
_PROMPT = "prompt"
_TOKENS = "completion_tokens"
_TEXT = "text"
_LAST = b"[DONE]"
# Names that a message shows.
_SHOWN = 3


def server_url(url: str) -> str:
    """Return the URL of the server, beside whose other pages the API is: its base URL, as users call it, has `/v1`."""
    return url.rstrip("/").removesuffix("/v1")


def api_url(endpoint: Endpoint) -> str:
    """Return where the API begins."""
    return f"{server_url(endpoint.url)}/v1"


def openai_model(endpoint: Endpoint, options: SourceOptions, model: str | None) -> str:
    """Return the model to ask.

    Args:
        endpoint: where the API is.
        options: how it is read.
        model: its name; None takes the one that is served.

    Raises:
        UsageError: it is not served, or several are and none was named.
        CollectError: the API does not list its models.

    """
    served = _served(endpoint, options)
    if model is None and len(served) == 1:
        return served[0]
    if model in served:
        return model
    if model is None:
        hint = f"choose with --model from {', '.join(served)}"
        raise UsageError("it is not clear which model to ask", where=endpoint.name, hint=hint)
    more = ", …" if len(served) > _SHOWN else ""
    hint = f"it serves {', '.join(served[:_SHOWN])}{more}"
    raise UsageError(f"the server has no model {model!r}", where=endpoint.name, hint=hint)


def _served(endpoint: Endpoint, options: SourceOptions) -> list[str]:
    url = f"{api_url(endpoint)}/models"
    try:
        stated = json_value(HttpReader(options).read("GET", url, accept="application/json"))
    except ReadFailure as failure:
        hint = "is OpenAI's API spoken there?"
        raise CollectError(f"does not list its models: {failure.reason}", where=url, hint=hint) from None
    except ValueError:
        stated = None
    entries = stated.get("data") if isinstance(stated, dict) else None
    names = [one.get("id") for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    found = sorted({name for name in names if isinstance(name, str) and name})
    if not found:
        raise CollectError("lists no model", where=url, hint="see the server's log")
    return found


def openai_configs(model: str) -> Iterator[Mapping[str, Any]]:
    """Yield what requests hold, in the form of a model configuration: with the engines' own fields, then without.

    Not every server takes `min_tokens` and `ignore_eos`, which OpenAI does not have. Without them answers may be
    shorter than the tokens that were asked for.
    """
    extensions = (_field("min_tokens", "INT32"), _field("ignore_eos", "BOOL"))
    for added in (extensions, ()):
        yield {
            "name": model,
            "input": [
                _field(_PROMPT, "STRING", optional=False),
                _field("max_tokens", "INT32"),
                _field("temperature", "FP32"),
                *added,
            ],
            "output": [_field(_TEXT, "STRING"), _field(_TOKENS, "INT32")],
        }


def _field(name: str, kind: str, *, optional: bool = True) -> dict[str, Any]:
    return {"name": name, "data_type": f"TYPE_{kind}", "dims": [1], "optional": optional}


class OpenAiTransport(HttpTransport):
    """A client of `POST /v1/chat/completions` or `/v1/completions`."""

    def prepare(self, model: str, requests: Sequence[Values], kinds: Mapping[str, str], reads: Reads) -> None:
        super().prepare(model, requests, kinds, reads)
        self._url = f"{api_url(self._endpoint)}/{_PATHS[self._endpoint.protocol]}"

    def _prepared(self, values: Values, kinds: Mapping[str, str]) -> Prepared:  # noqa: ARG002
        body = {"model": self._model, **input_json(values)}
        if self._endpoint.protocol == "chat":
            body["messages"] = [{"role": "user", "content": body.pop(_PROMPT)}]
        if self._endpoint.streaming:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return json.dumps(body).encode(), JSON_HEADERS

    async def _reply(self, answer: aiohttp.ClientResponse) -> Reply:
        if self._endpoint.streaming:
            return await self._streamed(answer)
        body = json_value(await whole_body(answer))
        if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
            raise TypeError("it has no choices")
        return Reply(counts=self._counted(body), text=self._text(body))

    async def _streamed(self, answer: aiohttp.ClientResponse) -> Reply:
        first: float | None = None
        counts: tuple[int, ...] = ()
        parts: list[str] = []
        ended = False
        async for data in event_data(answer):
            if not data:
                continue
            if ended := data == _LAST:
                break
            event = json_value(data)
            if not isinstance(event, dict):
                raise TypeError("it is no JSON object")
            if event.get("error"):
                return refused(self._scrub(error_text(event["error"])), 500)
            if text := _delta(event):
                # What comes before, as the role of who answers, is no token.
                first = first or time.perf_counter()
                parts.append(text)
            counts = self._counted(event) or counts
        if not ended:
            return refused("the stream ended before its last event", 200)
        alone = len(parts) == 1 and counts != (1,)
        return Reply(first=None if alone else first, counts=counts, text="".join(parts) if self._reads.text else "")

    def _counted(self, body: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the server's count of the answer's tokens; nothing where it reports none."""
        usage = body.get("usage")
        tokens = usage.get(_TOKENS) if isinstance(usage, dict) and self._reads.counts else None
        if tokens is None:
            return ()
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            raise ValueError("what counts its tokens is no number")
        return (tokens,)

    def _text(self, body: Mapping[str, Any]) -> str:
        return _delta(body) if self._reads.text else ""


def _delta(body: Mapping[str, Any]) -> str:
    """Return the text of an answer, or of the event that holds a part of it; reasoning is text too."""
    found: list[str] = []
    for choice in body.get("choices") or ():
        if isinstance(choice, dict):
            message = choice.get("delta") or choice.get("message") or {}
            texts = (choice.get("text"), message.get("reasoning_content"), message.get("content"))
            found += [text for text in texts if isinstance(text, str)]
    return "".join(found)
