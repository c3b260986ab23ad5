"""Requests made after a model's configuration, or read from a file."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import triton_to_np_dtype

from diagnostics.errors import UsageError, reason_of
from diagnostics.loadgen.sampling import Sampling, sampling
from diagnostics.loadgen.transport import Values

Config = Mapping[str, Any]
# Enough that no cache of whole responses answers for the model, and few enough to be made in no time.
VARIANTS = 64
# Whole numbers that the smallest type holds, and that are ids of any vocabulary.
_IDS = 128
_WORDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """What is sent.

    Attributes:
        values: the different requests.
        kinds: the data type of each input, as `INT32` or `BYTES`.
        digest: of their contents.
        text: whether they are prompts.
        length: words, or the size of variable dimensions; None where a file gave the requests.
        sampling: what they ask of the length of answers.

    """

    values: tuple[Values, ...]
    kinds: Mapping[str, str]
    digest: str
    text: bool
    length: int | None
    sampling: Sampling


def make_requests(config: Config, *, length: int, max_tokens: int, seed: int, streaming: bool) -> Requests:
    """Return random requests within a model's shapes: equal seeds give equal ones.

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
    chance = random.Random(seed)  # noqa: S311 - contents that repeat, not secrets
    drawn = [{field["name"]: _drawn(config, field, length, chance) for field in fields} for _ in range(VARIANTS)]
    fixed = {name: _shaped(config, name, value) for name, value in asked.values.items()}
    return Requests(
        values=tuple({**values, **fixed} for values in drawn),
        kinds=_kinds(config),
        digest=_digest(drawn),
        text=any(field["data_type"] == "TYPE_STRING" for field in fields),
        length=length,
        sampling=asked,
    )


def read_requests(config: Config, path: Path, *, max_tokens: int, streaming: bool) -> Requests:
    """Return the requests of a file with a JSON object of inputs a line, as `{"text_input": "why", "max_tokens": 8}`.

    Raises:
        UsageError: it cannot be read, or a line does not fit the model; names the line.

    """
    _refuse_state(config)
    asked = sampling(config, max_tokens, streaming=streaming)
    given = [_of_line(config, line, f"{path}:{number}") for number, line in _lines(path)]
    if not given:
        raise UsageError("holds no request", where=str(path), hint="write one JSON object a line")
    fixed = {name: _shaped(config, name, value) for name, value in asked.values.items()}
    kinds = _kinds(config)
    return Requests(
        values=tuple({**fixed, **values} for values in given),
        kinds=kinds,
        digest=_digest(given),
        text=any(kinds[name] == "BYTES" for values in given for name in values),
        length=None,
        sampling=asked,
    )


def _refuse_state(config: Config) -> None:
    if "sequence_batching" in config:
        hint = "load a model that takes each request by itself"
        raise UsageError("keeps state between requests, which this load does not", where=config["name"], hint=hint)


def _optional(field: Mapping[str, Any]) -> bool:
    return bool(field.get("optional"))


def _kinds(config: Config) -> dict[str, str]:
    return {
        field["name"]: field["data_type"].removeprefix("TYPE_").replace("STRING", "BYTES") for field in config["input"]
    }


def _batched(config: Config) -> list[int]:
    return [1] if int(config.get("max_batch_size") or 0) else []


def _drawn(config: Config, field: Mapping[str, Any], length: int, chance: random.Random) -> NDArray[Any]:
    shape = _batched(config) + [length if int(size) < 0 else int(size) for size in field["dims"]]
    kind, count = _kinds(config)[field["name"]], int(np.prod(shape))
    if kind == "BYTES":
        prompt = " ".join(f"word{chance.randrange(_WORDS)}" for _ in range(length))
        return np.full(shape, prompt.encode(), dtype=np.object_)
    if "length" in field["name"].lower():
        return np.full(shape, length, dtype=_dtype(kind, field["name"]))
    floats = kind.startswith(("FP", "BF"))
    numbers = [chance.random() if floats else chance.randrange(2 if kind == "BOOL" else _IDS) for _ in range(count)]
    return np.array(numbers, dtype=_dtype(kind, field["name"])).reshape(shape)


def _dtype(kind: str, name: str) -> Any:
    found = triton_to_np_dtype(kind)
    if found is None:
        raise UsageError(f"nothing can be made for an input of type {kind}", where=name, hint="give --input")
    return found


def _shaped(config: Config, name: str, value: object) -> NDArray[Any]:
    """Return a value as the tensor of an input: dimensions that it does not fill are 1."""
    field = next((field for field in config["input"] if field["name"] == name), None)
    if field is None:
        known = ", ".join(field["name"] for field in config["input"])
        raise UsageError(f"the model has no input {name!r}", where=config["name"], hint=f"its inputs are {known}")
    kind = _kinds(config)[name]
    values = np.array(value, dtype=np.object_ if kind == "BYTES" else _dtype(kind, name))
    if kind == "BYTES":
        values = np.vectorize(lambda text: str(text).encode(), otypes=[np.object_])(values)
    dims = [int(size) for size in field["dims"]]
    shape = values.shape if values.ndim == len(dims) else [size if size > 0 else -1 for size in dims]
    return values.reshape(_batched(config) + list(shape))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {reason_of(error)}", where=str(path)) from None
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _of_line(config: Config, line: str, where: str) -> Values:
    try:
        given = json.loads(line)
        if not isinstance(given, dict):
            raise UsageError("is no JSON object", where=where, hint="write the inputs' names and values")
        return {name: _shaped(config, name, value) for name, value in given.items()}
    except (ValueError, TypeError) as error:
        raise UsageError(f"cannot be used: {error}", where=where) from None


def _digest(requests: Sequence[Values]) -> str:
    """Return a digest of contents without names and shapes of tensors, which differ between stacks."""
    found = hashlib.sha256()
    for values in requests:
        for array in values.values():
            found.update(
                json.dumps(array.ravel().tolist(), default=lambda value: value.decode("utf-8", "replace")).encode()
            )
    return found.hexdigest()[:16]
