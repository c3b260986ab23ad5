"""What makes answers equally long, in the words that a model takes.

The inputs are those of NVIDIA's TensorRT-LLM model repository (`max_tokens` or `request_output_len`, `min_tokens` or
`min_length`, `end_id`, `top_k` or `runtime_top_k`) and of Triton's vLLM backend (`sampling_parameters`, a JSON object
of vLLM's SamplingParams). Both count tokens of a response where `return_num_output_tokens` asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

COUNTS = "num_output_tokens"
_MAX = ("max_tokens", "request_output_len", "output_len")
_MIN = ("min_tokens", "min_length")
_GREEDY = ("top_k", "runtime_top_k")
_END = ("end_id",)
# No token has this id: none ends an answer early.
_NO_END = -1
# What a generating model's repository asks for in every request and needs no prompt for.
_EMPTY = ("stop_words", "bad_words")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParameters:
    """Inputs that bound the length of an answer.

    Attributes:
        values: by the input's name.
        asked: what of `max_tokens`, `min_tokens`, `ignore_eos` and `greedy` they ask for.
        max_tokens: tokens of an answer; None where the model takes no limit.

    """

    values: Mapping[str, object]
    asked: tuple[str, ...]
    max_tokens: int | None


def sampling(config: Mapping[str, Any], max_tokens: int, *, streaming: bool = False) -> SamplingParameters:
    """Return what to ask of a model, as far as it has inputs for it; nothing of one that generates no text."""
    kinds = {field["name"]: field.get("data_type", "") for field in config["input"]}
    names = set(kinds)
    values: dict[str, object] = {}
    asked: list[str] = []
    if "sampling_parameters" in names:
        values["sampling_parameters"] = json.dumps(
            {"max_tokens": max_tokens, "min_tokens": max_tokens, "ignore_eos": True, "temperature": 0}
        )
        asked = ["max_tokens", "min_tokens", "ignore_eos", "greedy"]
    elif _first(_MAX, names):
        for what, known, value in (
            ("max_tokens", _MAX, max_tokens),
            ("min_tokens", _MIN, max_tokens),
            ("ignore_eos", _END, _NO_END),
            ("greedy", _GREEDY, 1),
        ):
            name = _first(known, names)
            # −1, which no token has, is no number of an unsigned type: such a model is not asked to go on.
            if name and not (what == "ignore_eos" and "UINT" in kinds[name]):
                values[name] = value
                asked.append(what)
    if asked:
        values |= _beside(config, names, streaming)
    return SamplingParameters(values=values, asked=tuple(asked), max_tokens=max_tokens if asked else None)


def bound_in(values: Mapping[str, Any], otherwise: int) -> int:
    """Return the tokens that a request's own inputs allow an answer, or else what others are allowed."""
    name = _first(_MAX, set(values))
    return int(values[name].flat[0]) if name else otherwise


def as_given(asked: SamplingParameters, given: Sequence[Mapping[str, Any]]) -> SamplingParameters:
    """Return what requests of a file ask for: the most that one of them does; nothing where they say how to sample."""
    if any("sampling_parameters" in values for values in given):
        return SamplingParameters(values={}, asked=(), max_tokens=None)
    if asked.max_tokens is None:
        return asked
    return replace(asked, max_tokens=max(bound_in(values, asked.max_tokens) for values in given))


def _beside(config: Mapping[str, Any], names: set[str], streaming: bool) -> dict[str, object]:
    found: dict[str, object] = {name: "" for name in _EMPTY if name in names and not _is_optional(config, name)}
    if f"return_{COUNTS}" in names:
        found[f"return_{COUNTS}"] = True
    if streaming:
        found |= dict.fromkeys(names & {"stream", "streaming"}, True)
    return found


def _is_optional(config: Mapping[str, Any], name: str) -> bool:
    return any(field["name"] == name and field.get("optional") for field in config["input"])


def _first(known: Iterable[str], names: set[str]) -> str:
    return next((name for name in known if name in names), "")
