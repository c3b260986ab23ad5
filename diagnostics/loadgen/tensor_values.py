"""Values of inputs: drawn at random, or given in JSON, as arrays of the types and shapes that a model takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import triton_to_np_dtype

from diagnostics.errors import UsageError

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
        # More than one variable size cannot be told from a flat list.
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
