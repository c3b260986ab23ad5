"""Between the inputs of a request and what tritonclient and JSON make of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from diagnostics.loadgen.transport import Reads, Reply, Values


def input_tensors(triton: Any, values: Values, kinds: Mapping[str, str]) -> list[Any]:
    """Return a request's inputs as tensors of the client module `triton`.

    Args:
        triton: `tritonclient.http` or `tritonclient.grpc`.
        values: the inputs.
        kinds: the data type of each input in the wire's words, as `INT32` or `BYTES`.

    """
    made = []
    for name, array in values.items():
        tensor = triton.InferInput(name, list(array.shape), kinds[name])
        tensor.set_data_from_numpy(array)
        made.append(tensor)
    return made


def input_json(values: Values) -> dict[str, Any]:
    """Return a request's inputs as the generate endpoint takes them: a tensor of one element is a plain value."""
    return {name: _plain(array) for name, array in values.items()}


def _plain(array: Any) -> Any:
    flat = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in array.ravel().tolist()]
    return flat[0] if len(flat) == 1 else flat


def _tokens(counts: Any) -> int:
    try:
        return int(np.sum(counts))
    except (TypeError, ValueError):
        raise ValueError("what counts its tokens is no number") from None


def of_model(asked: str, said: object) -> None:
    """Refuse an answer of another model than was asked; one that names none is taken at its word.

    Raises:
        ValueError: it names another model.

    """
    if said and said != asked:
        raise ValueError(f"it is of model {said!r}")


def read_result(result: Any, reads: Reads) -> tuple[tuple[int, ...], str]:
    """Return count and text of one response of tritonclient; nothing of what it does not hold."""
    counts = result.as_numpy(reads.counts) if reads.counts else None
    text = result.as_numpy(reads.text) if reads.text else None
    return (
        () if counts is None else (_tokens(counts),),
        "" if text is None else b"".join(text.ravel().tolist()).decode("utf-8", "replace"),
    )


def read_json(body: Mapping[str, Any], reads: Reads) -> tuple[tuple[int, ...], str]:
    """Return count and text of one response of the generate endpoint."""
    counts, text = body.get(reads.counts), body.get(reads.text, "")
    return (
        () if counts is None else (_tokens(counts),),
        text if isinstance(text, str) else "".join(map(str, text)),
    )


def whole(parts: list[tuple[tuple[int, ...], str]], first: float | None = None) -> Reply:
    """Return the reply of responses that came one by one.

    A single response shows when the answer was whole, and not when it began, unless it is one token.
    """
    counts = tuple(count for counts, _ in parts for count in counts)
    began = first if len(parts) > 1 or counts == (1,) else None
    return Reply(first=began, counts=counts, text="".join(text for _, text in parts))
