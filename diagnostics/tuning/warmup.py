"""Warm-up samples made from a configuration's own inputs."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.tuning.changes import WarmupChange
from diagnostics.tuning.pbtxt import Scalar, TextMessage, quote


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    name: str
    data_type: str
    dims: tuple[str, ...]


def missing_warmups(root: TextMessage, wanted: WarmupChange, path: str) -> tuple[list[str], list[str]]:
    """Return blocks for the batch sizes that `root` does not warm up yet, and notes for the reader.

    Inputs have zero data in the configuration's own dimensions; -1 becomes 1. No blocks are returned when the
    configuration does not state its inputs.
    """
    sizes = sorted(set(wanted.batch_sizes) - _covered(root))
    inputs = _inputs(root)
    if sizes and not inputs:
        return [], [f"{path} does not state the model's inputs: write the warm-up samples by hand"]
    notes = []
    if sizes and any("-1" in item.dims for item in inputs):
        notes.append("dimensions of -1 are warmed up as 1: give the sizes that requests have")
    return [_sample(size, inputs) for size in sizes], notes


def _covered(root: TextMessage) -> set[int]:
    """Return the batch sizes of the samples that are there; an absent size means a single element."""
    sizes = (sample.scalar("batch_size") for sample in root.messages("model_warmup"))
    return {max((size.integer() or 1) if size else 1, 1) for size in sizes}


def _inputs(root: TextMessage) -> list[_Input]:
    """Return the inputs that a request must have."""
    found = []
    for block in root.messages("input"):
        name, data_type, optional = (block.scalar(key) for key in ("name", "data_type", "optional"))
        dims = tuple(v.text for f in block.all("dims") for v in f.values() if isinstance(v, Scalar))
        if name and data_type and not (optional and optional.value in ("true", "True", "t", "1")):
            found.append(_Input(name=name.value, data_type=data_type.text, dims=dims))
    return found


def _sample(size: int, inputs: list[_Input]) -> str:
    blocks = " ".join(_input_block(item) for item in inputs)
    return f"{{ name: {quote(f'batch {size}')} batch_size: {size} {blocks} }}"


def _input_block(item: _Input) -> str:
    dims = ", ".join("1" if dim.replace(" ", "") == "-1" else dim for dim in item.dims)
    value = f"data_type: {item.data_type} dims: [ {dims} ] zero_data: true"
    return f"inputs {{ key: {quote(item.name)} value {{ {value} }} }}"
