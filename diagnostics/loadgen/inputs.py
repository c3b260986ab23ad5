"""Requests made after a model's configuration, or read from a file."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diagnostics.errors import UsageError
from diagnostics.loadgen.sampling import SamplingParameters, as_given, bound_in, sampling
from diagnostics.loadgen.tensor_values import Config, dtype_of, kinds_of, numbers, shape_of, tensor_of
from diagnostics.loadgen.transport import Values
from diagnostics.wire.json_body import json_value
from exporters.sources.given_file import read_given

# Enough that no cache of whole responses answers for the model, and few enough to be made in no time.
VARIANTS = 64
# All different requests together, which are held, have as many bytes as Triton takes in one unless told otherwise
# (its option http-max-input-size).
MOST_BYTES = 64 * 2**20
_WORDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """What is sent.

    Attributes:
        values: the different requests.
        kinds: the data type of each input, as `INT32` or `BYTES`.
        digest: of their contents.
        text: whether they are prompts.
        length: words, or the size of variable dimensions; None where there are none, or a file gave the requests.
        sampling: what they ask of the length of answers.

    """

    values: tuple[Values, ...]
    kinds: Mapping[str, str]
    digest: str
    text: bool
    length: int | None
    sampling: SamplingParameters


def make_requests(config: Config, *, length: int, max_tokens: int, seed: int, streaming: bool) -> Requests:
    """Return random requests within a model's shapes: equal seeds give equal ones, large ones are fewer.

    Optional inputs are left out but for those that make answers equally long.

    Args:
        config: the model's configuration.
        length: words of a prompt, and the size of variable dimensions.
        max_tokens: tokens of an answer, where the model takes such a limit.
        seed: of contents.
        streaming: whether the model is asked to answer token by token.

    Raises:
        UsageError: the model keeps state between requests, or has an input that nothing can be made for.

    """
    _refuse_state(config)
    asked = sampling(config, max_tokens, streaming=streaming)
    fields = [field for field in config["input"] if not _optional(field) and field["name"] not in asked.values]
    count = _variants(config, fields, length)
    drawn = list(_drawn(config, fields, length, seed, count))
    fixed = _fixed(config, asked)
    return Requests(
        values=tuple({**values, **fixed} for values in drawn),
        kinds=kinds_of(config),
        digest=_digest(drawn),
        text=any(field["data_type"] == "TYPE_STRING" for field in fields),
        length=length if any(_takes_length(field) for field in fields) else None,
        sampling=asked,
    )


def read_requests(config: Config, path: Path, *, max_tokens: int, streaming: bool) -> Requests:
    """Return the requests of a file with a JSON object of inputs a line, as `{"text_input": "why", "max_tokens": 8}`.

    Raises:
        UsageError: it cannot be read, or a line does not fit the model; names the line.

    """
    _refuse_state(config)
    asked = sampling(config, max_tokens, streaming=streaming)
    fixed = _fixed(config, asked)
    needed = {field["name"] for field in config["input"] if not _optional(field)} - fixed.keys()
    given = [_of_line(config, line, needed, f"{path}:{number}") for number, line in _lines(path)]
    if not given:
        raise UsageError("holds no request", where=str(path), hint="write one JSON object a line")
    kinds = kinds_of(config)
    # Least and most tokens go together: a line with its own most takes that as its least.
    bounds = [sampling(config, bound_in(values, max_tokens), streaming=streaming) for values in given]
    return Requests(
        values=tuple({**_fixed(config, own), **values} for own, values in zip(bounds, given, strict=True)),
        kinds=kinds,
        digest=_digest(given),
        text=any(kinds[name] == "BYTES" for values in given for name in values),
        length=None,
        sampling=as_given(asked, given),
    )


def _refuse_state(config: Config) -> None:
    if "sequence_batching" in config:
        hint = "load a model that takes each request by itself"
        raise UsageError("keeps state between requests, which this load does not", where=config["name"], hint=hint)


def _takes_length(field: Mapping[str, Any]) -> bool:
    text = field["data_type"] == "TYPE_STRING"
    return text or "length" in field["name"].lower() or any(int(size) < 0 for size in field["dims"])


def _optional(field: Mapping[str, Any]) -> bool:
    return bool(field.get("optional"))


def _fixed(config: Config, asked: SamplingParameters) -> dict[str, NDArray[Any]]:
    try:
        return {name: tensor_of(config, name, value) for name, value in asked.values.items()}
    except ValueError as error:
        raise UsageError(f"cannot be asked for answers of one length: {error}", where=config["name"]) from None


def _variants(config: Config, fields: Sequence[Mapping[str, Any]], length: int) -> int:
    """Return how many different requests are made."""
    size = sum(_size(config, field, length) for field in fields)
    if size > MOST_BYTES:
        hint = "give a shorter --length, or requests by --input"
        raise UsageError(f"a request has {size / 2**20:,.0f} MiB", where=config["name"], hint=hint)
    return max(1, min(VARIANTS, MOST_BYTES // max(size, 1)))


def _size(config: Config, field: Mapping[str, Any], length: int) -> int:
    elements = math.prod(shape_of(config, field, length))
    kind = kinds_of(config)[field["name"]]
    # A prompt is made once, and each element holds it.
    return elements * len(f"word{_WORDS} ") * length if kind == "BYTES" else elements * dtype_of(kind, "").itemsize


def _drawn(
    config: Config, fields: Sequence[Mapping[str, Any]], length: int, seed: int, count: int
) -> Iterator[dict[str, NDArray[Any]]]:
    words = random.Random(seed)  # noqa: S311 - contents that repeat, not secrets
    chance = np.random.default_rng(seed % 2**64)
    for _ in range(count):
        yield {field["name"]: _value(config, field, length, words, chance) for field in fields}


def _value(
    config: Config, field: Mapping[str, Any], length: int, words: random.Random, chance: np.random.Generator
) -> NDArray[Any]:
    name, shape = field["name"], shape_of(config, field, length)
    kind = kinds_of(config)[name]
    if kind == "BYTES":
        prompt = " ".join(f"word{words.randrange(_WORDS)}" for _ in range(length))
        return np.full(shape, prompt.encode(), dtype=np.object_)
    if "length" in name.lower():
        return np.full(shape, length).astype(dtype_of(kind, name))
    return numbers(kind, name, shape, chance)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = read_given(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"is not UTF-8 text at byte {error.start}", where=str(path)) from None
    # Not splitlines(): a prompt may hold U+2028, which ends no line of JSON.
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _of_line(config: Config, line: str, needed: set[str], where: str) -> Values:
    try:
        given = json_value(line)
        if not isinstance(given, dict):
            raise UsageError("is no JSON object", where=where, hint="write the inputs' names and values")
        values = {name: tensor_of(config, name, value) for name, value in given.items()}
    except (ValueError, RecursionError) as error:
        # What Python says of huge numbers goes on with advice for programmers.
        raise UsageError(f"cannot be used: {str(error).partition('; use sys.')[0]}", where=where) from None
    if missing := needed - given.keys():
        raise UsageError(f"cannot be used: the model also takes {', '.join(sorted(missing))}", where=where)
    return values


def _digest(requests: Sequence[Values]) -> str:
    """Return a digest of contents without names, shapes and widths of tensors, which differ between stacks."""
    found = hashlib.sha256()
    for values in requests:
        for array in values.values():
            found.update(_contents(array))
    return found.hexdigest()[:16]


def _contents(array: NDArray[Any]) -> bytes:
    if array.dtype == np.object_:
        return json.dumps([value.decode("utf-8", "replace") for value in array.ravel().tolist()]).encode()
    return array.astype(np.int64 if array.dtype.kind in "iub" else np.float64).tobytes()
