"""What makes answers equally long, in the words that a model takes.

The inputs are those of NVIDIA's TensorRT-LLM model repository (`max_tokens` or `request_output_len`, `min_tokens` or
`min_length`, `end_id`, `top_k` or `runtime_top_k`) and of Triton's vLLM backend (`sampling_parameters`, a JSON object
of vLLM's SamplingParams). Both count tokens of a response where `return_num_output_tokens` asks for it. OpenAI's API
has `max_tokens` and `temperature`; vLLM, SGLang, trtllm-serve and Dynamo add `min_tokens` and `ignore_eos`.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import triton_to_np_dtype

from diagnostics.errors import UsageError
from diagnostics.loadgen.transport import Values
from diagnostics.wire.json_body import json_value
from exporters.sources.repository import read_given

NUM_OUTPUT_TOKENS = "num_output_tokens"
# Of Triton's backends, and of OpenAI's API.
COUNTS = (NUM_OUTPUT_TOKENS, "completion_tokens")
_MAX = ("max_tokens", "request_output_len", "output_len")
_MIN = ("min_tokens", "min_length")
_GREEDY = ("top_k", "runtime_top_k")
_TEMPERATURE = ("temperature",)
_END = ("end_id",)
_IGNORE_END = ("ignore_eos",)
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
    sent: list[str] = []
    if "sampling_parameters" in names:
        values["sampling_parameters"] = json.dumps(
            {"max_tokens": max_tokens, "min_tokens": max_tokens, "ignore_eos": True, "temperature": 0}
        )
        sent = ["max_tokens", "min_tokens", "ignore_eos", "greedy"]
    elif _first(_MAX, names):
        for what, known, value in (
            ("max_tokens", _MAX, max_tokens),
            ("min_tokens", _MIN, max_tokens),
            ("ignore_eos", _IGNORE_END, True),
            ("ignore_eos", _END, _NO_END),
            ("greedy", _GREEDY, 1),
            ("greedy", _TEMPERATURE, 0.0),
        ):
            name = _first(known, names) if what not in sent else ""
            # −1, which no token has, is no number of an unsigned type: such a model is not asked to go on.
            if name and not (value == _NO_END and "UINT" in kinds[name]):
                values[name] = value
                sent.append(what)
    if sent:
        values |= _beside(config, names, streaming)
    return SamplingParameters(values=values, asked=tuple(sent), max_tokens=max_tokens if sent else None)


def bound_in(values: Mapping[str, Any], otherwise: int) -> int:
    """Return the tokens that a request's own inputs allow an answer, or else what others are allowed."""
    name = _first(_MAX, set(values))
    return int(values[name].flat[0]) if name else otherwise


def as_given(parameters: SamplingParameters, given: Sequence[Mapping[str, Any]]) -> SamplingParameters:
    """Return what requests of a file ask for: the most that one of them does; nothing where they say how to sample."""
    if any("sampling_parameters" in values for values in given):
        return SamplingParameters(values={}, asked=(), max_tokens=None)
    if parameters.max_tokens is None:
        return parameters
    return replace(parameters, max_tokens=max(bound_in(values, parameters.max_tokens) for values in given))


def _beside(config: Mapping[str, Any], names: set[str], streaming: bool) -> dict[str, object]:
    found: dict[str, object] = {name: "" for name in _EMPTY if name in names and not _is_optional(config, name)}
    if f"return_{NUM_OUTPUT_TOKENS}" in names:
        found[f"return_{NUM_OUTPUT_TOKENS}"] = True
    if streaming:
        found |= dict.fromkeys(names & {"stream", "streaming"}, True)
    return found


def _is_optional(config: Mapping[str, Any], name: str) -> bool:
    return any(field["name"] == name and field.get("optional") for field in config["input"])


def _first(known: Iterable[str], names: set[str]) -> str:
    return next((name for name in known if name in names), "")


Config = Mapping[str, Any]
# Whole numbers that the smallest type holds, and that are ids of any vocabulary.
_IDS = 128


def kinds_of(config: Config) -> dict[str, str]:
    """Return the data type of each input in the wire's words, as `INT32` or `BYTES`."""
    return {
        field["name"]: field["data_type"].removeprefix("TYPE_").replace("STRING", "BYTES") for field in config["input"]
    }


def shape_of(config: Config, field: Mapping[str, Any], length: int) -> list[int]:
    """Return the shape of an input in a request of batch size 1; variable sizes are `length`."""
    return _batched(config) + [length if int(size) < 0 else int(size) for size in field["dims"]]


def dtype_of(kind: str, name: str) -> Any:
    """Return numpy's type of a data type.

    Raises:
        UsageError: there is none; names the input.

    """
    found = triton_to_np_dtype(kind)
    if found is None:
        raise UsageError(f"nothing can be made for an input of type {kind}", where=name)
    return np.dtype(found)


def numbers(kind: str, name: str, shape: Sequence[int], chance: np.random.Generator) -> NDArray[Any]:
    """Return random numbers of a type: fractions below 1, 0 and 1 of BOOL, else ids."""
    dtype = dtype_of(kind, name)
    if kind.startswith(("FP", "BF")):
        return chance.random(shape, dtype=np.float32).astype(dtype)
    return chance.integers(2 if kind == "BOOL" else _IDS, size=shape).astype(dtype)


def tensor_of(config: Config, name: str, value: object) -> NDArray[Any]:
    """Return a value of JSON as the tensor of an input: dimensions that it does not fill are 1.

    Raises:
        ValueError: the model has no such input, or it takes other values; names it.

    """
    field = next((field for field in config["input"] if field["name"] == name), None)
    if field is None:
        known = ", ".join(field["name"] for field in config["input"])
        raise ValueError(f"the model has no input {name!r}; its inputs are {known}")
    kind = kinds_of(config)[name]
    for leaf in _leaves(value):
        if not _fits(leaf, kind):
            raise ValueError(f"{name} takes {kind}, not {str(leaf)[:40]!r}")
    return _shaped(config, field, _array(kind, name, value))


def _array(kind: str, name: str, value: object) -> NDArray[Any]:
    try:
        if kind == "BYTES":
            array = np.array(value, dtype=np.object_)
            return np.vectorize(lambda text: text.encode(), otypes=[np.object_])(array) if array.size else array
        return np.array(value, dtype=dtype_of(kind, name))
    except UnicodeEncodeError:
        raise ValueError(f"{name} has half a character (a lone surrogate)") from None
    except OverflowError:
        raise ValueError(f"{name} takes {kind}, and a number is out of its range") from None
    except (ValueError, AttributeError):
        raise ValueError(f"{name} has rows of different lengths") from None


def _shaped(config: Config, field: Mapping[str, Any], values: NDArray[Any]) -> NDArray[Any]:
    dims = [int(size) for size in field["dims"]]
    shape = list(values.shape) if values.ndim == len(dims) else [size if size >= 0 else -1 for size in dims]
    fits = all(size in (-1, given) for size, given in zip(dims, shape, strict=True))
    try:
        # More than one variable size cannot be determined from a flat list.
        found = values.reshape(_batched(config) + shape) if fits else None
    except ValueError:
        found = None
    if found is None:
        given = "×".join(map(str, values.shape)) or "one value"
        raise ValueError(f"{field['name']} takes the sizes {dims}, not {given}")
    return found


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _fits(leaf: object, kind: str) -> bool:
    """Return whether a value of JSON is one of the type, and not silently turned into one."""
    if kind == "BYTES":
        return isinstance(leaf, str)
    if kind == "BOOL" or isinstance(leaf, bool):
        return kind == "BOOL" and leaf in (True, False)
    return isinstance(leaf, int | float) if kind.startswith(("FP", "BF")) else isinstance(leaf, int)


def _batched(config: Config) -> list[int]:
    return [1] if int(config.get("max_batch_size") or 0) else []


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
    parameters = sampling(config, max_tokens, streaming=streaming)
    fields = [field for field in config["input"] if not _optional(field) and field["name"] not in parameters.values]
    count = _variants(config, fields, length)
    drawn = list(_drawn(config, fields, length, seed, count))
    fixed = _fixed(config, parameters)
    return Requests(
        values=tuple({**values, **fixed} for values in drawn),
        kinds=kinds_of(config),
        digest=_digest(drawn),
        text=any(field["data_type"] == "TYPE_STRING" for field in fields),
        length=length if any(_takes_length(field) for field in fields) else None,
        sampling=parameters,
    )


def read_requests(config: Config, path: Path, *, max_tokens: int, streaming: bool) -> Requests:
    """Return the requests of a file with a JSON object of inputs a line, as `{"text_input": "why", "max_tokens": 8}`.

    Raises:
        UsageError: it cannot be read, or a line does not fit the model; names the line.

    """
    _refuse_state(config)
    parameters = sampling(config, max_tokens, streaming=streaming)
    fixed = _fixed(config, parameters)
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
        sampling=as_given(parameters, given),
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


def _fixed(config: Config, parameters: SamplingParameters) -> dict[str, NDArray[Any]]:
    try:
        return {name: tensor_of(config, name, value) for name, value in parameters.values.items()}
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
        given = json_value(line, whole=False)
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
