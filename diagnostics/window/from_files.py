"""A model's configuration from its file, where the server was not asked: what the file says, completed as Triton does.

Triton completes what a file leaves out (core, `model_config_utils.cc`, `NormalizeInstanceGroup`): an instance group of
one instance, of two on processors for TensorFlow and ONNX Runtime; the kind by whether the server sees GPUs. What a
backend would take from the model itself cannot be known from the file: such files give nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from diagnostics import names
from diagnostics.errors import MalformedBody
from diagnostics.tuning.pbtxt import Field, ListValue, Scalar, TextMessage, Value, parse
from diagnostics.wire.json_body import JsonFields
from diagnostics.wire.model_config import InstanceGroup, ModelConfig, incomplete, model_config_of

FILE = "config.pbtxt"
_REPEATED = frozenset({"instance_group", "gpus", "preferred_batch_size", "step", "model_warmup", "input", "dims"})
_REPEATED_NUMBERS = frozenset({"versions"})
_MAPS = frozenset({"input_map", "output_map", "parameters"})
# Parts that nobody here reads, some of them deep.
_LEFT_OUT = frozenset({"output", "optimization", "cc_model_filenames", "metric_tags", "model_operations", "inputs"})
_TWO_ON_PROCESSORS = frozenset({"onnxruntime", "tensorflow"})
_FLAGS = {"true": True, "false": False}


@lru_cache(maxsize=2048)  # replicas have the same files, and a window is put together again and again
def config_of_file(model: str, text: str, *, on_gpus: bool) -> ModelConfig | None:
    """Return the configuration in the text of a `config.pbtxt`.

    Args:
        model: the folder's name, which the file need not repeat.
        text: the file's.
        on_gpus: whether the server sees GPUs.

    Returns:
        None where the file is not one, has template fields left to fill, leaves to the model what it is made of, or is
        an ensemble's without its steps.

    """
    try:
        root = parse(text)
        if not _says_enough(root):
            return None
        values = {"name": model, **_object(root)}
        config = model_config_of(JsonFields(values, "the configuration file"))
    except MalformedBody:
        return None
    return None if incomplete(config) else _completed(replace(config, name=model), on_gpus=on_gpus)


def _says_enough(root: TextMessage) -> bool:
    """Return whether nothing is left to the model: an ensemble, or a file with inputs, outputs and a batch size.

    Only Python models batch not at all where the file names no batch size; other backends may find one.
    """
    if root.all("ensemble_scheduling"):
        return True
    backend = root.scalar("backend")
    sized = root.scalar("max_batch_size") is not None or (backend is not None and backend.value == names.PYTHON_BACKEND)
    return bool(root.all("input") and root.all("output")) and sized


def _object(message: TextMessage) -> dict[str, object]:
    values: dict[str, object] = {}
    for field in message.fields:
        if field.name in _LEFT_OUT:
            continue
        if field.name in _MAPS:
            values.setdefault(field.name, {})
            into = values[field.name]
            assert isinstance(into, dict)
            into |= _entries(field)
        elif field.name in _REPEATED or field.name in _REPEATED_NUMBERS:
            have = values.setdefault(field.name, [])
            assert isinstance(have, list)
            have += [_value(value) for value in field.values()]
        else:
            values[field.name] = _value(field.value)
    return values


def _entries(field: Field) -> Mapping[str, object]:
    """Return the entries of a map, which is written as `{ key: … value: … }`; templates in them stay."""
    found: dict[str, object] = {}
    for entry in field.values():
        if isinstance(entry, TextMessage) and (key := entry.scalar("key")) is not None:
            inner = entry.messages("value")
            text = inner[0].scalar("string_value") if inner else entry.scalar("value")
            written = text.value if text else ""
            found[key.value] = {"string_value": written} if inner else written
    return found


def _value(value: Value) -> object:
    match value:
        case TextMessage():
            return _object(value)
        case ListValue():
            return [_value(item) for item in value.items]
        case Scalar():
            return _scalar(value)


def _scalar(scalar: Scalar) -> object:
    if scalar.templates:
        raise MalformedBody("has template fields that are not filled", where=FILE)
    number = scalar.integer()
    return _FLAGS.get(scalar.text, scalar.value) if number is None else number


def _completed(config: ModelConfig, *, on_gpus: bool) -> ModelConfig:
    if config.ensemble_steps:
        return replace(config, platform=names.ENSEMBLE_PLATFORM, instance_groups=())
    backend = config.backend or config.platform.partition("_")[0]
    kind = names.KIND_GPU if on_gpus else names.KIND_CPU
    count = 2 if not on_gpus and backend in _TWO_ON_PROCESSORS else 1
    groups = config.instance_groups or (InstanceGroup(count=count, kind=names.KIND_AUTO),)
    resolved = (replace(group, kind=kind) if group.kind == names.KIND_AUTO else group for group in groups)
    return replace(config, backend=backend, instance_groups=tuple(resolved))
