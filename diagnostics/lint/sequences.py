"""The sequence batcher of a configuration: its strategy, its control tensors and its slots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.model_folder import ModelFolder

START, READY, CORRID = "CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_CORRID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What a control tensor tells the model; `kind` and `tensor` are None where a template may decide."""

    kind: str | None
    tensor: str | None
    block: ConfigMessage


def batcher(model: ModelFolder) -> ConfigMessage | None:
    """Return the settings of its sequence batcher; None where it has none."""
    return model.config.block("sequence_batching") if model.config else None


def controls(batching: ConfigMessage) -> Iterator[Control]:
    """Yield the controls in order; one that names no kind is a start, protobuf's default."""
    for tensor in batching.blocks("control_input"):
        for control in tensor.blocks("control"):
            yield Control(kind=control.text("kind", START), tensor=tensor.text("name"), block=control)


def whole(batching: ConfigMessage) -> bool:
    """Return whether no template hides a control."""
    inputs = batching.blocks("control_input")
    return batching.complete and all(one.complete and one.has("control") is not None for one in inputs)


def slots(model: ModelFolder) -> int | None:
    """Return how many sequences one instance serves at a time; None when it is unknown.

    Source: Triton core, `sequence_batch_scheduler.cc`: of the strategy `oldest` its `max_candidate_sequences`, else
    the largest batch; at least 1. Seen on Triton 2.51: the next sequence waits until one ends or idles.
    """
    batching = batcher(model)
    if batching is None:
        return None
    if batching.has("oldest") is None:
        return None
    oldest = batching.block("oldest")
    most = oldest.integer("max_candidate_sequences") if oldest else model.max_batch_size
    return None if most is None else max(most, 1)
