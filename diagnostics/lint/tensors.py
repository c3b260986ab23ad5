"""Tensors and steps of a configuration, as far as they are written; what a template may become is unknown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.lint.block import ConfigMessage, Text
from diagnostics.lint.model_folder import remembered
from diagnostics.lint.problem import SourceLocation

ANY_SIZE = -1
"""A dimension that may have any size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTensor:
    """An input or output; `data_type`, `dims` (without the batch dimension) and `optional` are None when unknown."""

    name: str
    data_type: str | None
    dims: tuple[int, ...] | None
    optional: bool | None
    place: SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBlock:
    """A step of an ensemble; the maps go from the member's tensor to the ensemble's."""

    block: ConfigMessage
    model: str | None
    inputs: Mapping[str, Text]
    outputs: Mapping[str, Text]

    @property
    def complete(self) -> bool:
        """Return whether no template hides a tensor of the maps."""
        maps = (*self.block.blocks("input_map"), *self.block.blocks("output_map"))
        written = (*self.inputs.values(), *self.outputs.values())
        return (
            self.block.complete
            and all(one.complete and one.text("key") for one in maps)
            and all(text.value is not None for text in written)
        )


def tensors(config: ConfigMessage, field: str) -> tuple[DeclaredTensor, ...] | None:
    """Return the tensors of the field `input` or `output`; None when a template may stand for some or for a name."""
    found = tuple(_tensor(block) for block in config.blocks(field))
    known = config.has(field) is not None and config.complete and all(tensor.name for tensor in found)
    return found if known else None


@remembered
def steps(config: ConfigMessage) -> tuple[StepBlock, ...]:
    """Return the steps of an ensemble, in order; none where it has none."""
    scheduling = config.block("ensemble_scheduling")
    return tuple(_step(block) for block in scheduling.blocks("step")) if scheduling else ()


def run_order(every: Sequence[StepBlock], given: Collection[str]) -> tuple[int, ...]:
    """Return the numbers of the steps that run, from the tensors `given` on, each after those that it waits for.

    Takes time in proportion to what is written. A step that waits for what nobody writes, or in a circle, is left out.
    """
    waits = [{text.value or "" for text in step.inputs.values()} for step in every]
    readers: dict[str, list[int]] = {}
    for number, names in enumerate(waits):
        for name in names:
            readers.setdefault(name, []).append(number)
    missing, seen = [len(names) for names in waits], set[str]()
    order = [number for number, count in enumerate(missing) if not count]
    arrived = [*given, *(text.value or "" for number in order for text in every[number].outputs.values())]
    while arrived:
        name = arrived.pop()
        for number in readers.get(name, ()) if name not in seen else ():
            missing[number] -= 1
            if not missing[number]:
                order.append(number)
                arrived += [text.value or "" for text in every[number].outputs.values()]
        seen.add(name)
    return tuple(order)


def fits(one: Sequence[int] | None, other: Sequence[int] | None, *, one_batches: bool = True) -> bool:
    """Return whether two shapes may be the same; an unknown one fits all.

    Source: Triton core, `ensemble_utils.cc` (`ValidateTensorConsistency`): a shape also fits when only one of the
    models batches (`one_batches`, or may), and the other spells the batch dimension out.
    """
    if one is None or other is None:
        return True
    if not one_batches:
        return _same(one, other)
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    spelled = (ANY_SIZE, *shorter)
    return _same(one, other) or (len(longer) == len(spelled) and _same(longer, spelled))


def _same(one: Sequence[int], other: Sequence[int]) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a == b or ANY_SIZE in (a, b) for a, b in pairs)


def _tensor(block: ConfigMessage) -> DeclaredTensor:
    data_type, dims = block.text("data_type"), block.integers("dims")
    return DeclaredTensor(
        name=block.text("name") or "",
        data_type=data_type if data_type and data_type.startswith("TYPE_") else None,
        dims=dims or None,
        optional=block.flag("optional"),
        place=block.at("name"),
    )


def _step(block: ConfigMessage) -> StepBlock:
    inputs, outputs = block.map("input_map"), block.map("output_map")
    return StepBlock(block=block, model=block.text("model_name") or None, inputs=inputs, outputs=outputs)
