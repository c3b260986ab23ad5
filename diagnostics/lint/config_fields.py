"""The fields of a `config.pbtxt` by message, as of Triton 2.73: `model_config.proto`.

A field is written `name:type`, with `*` where it may be repeated, and `|choice` where it excludes the others of that
choice. A type is a scalar's or an enumeration's name, a message's, or `{key,value}` for the entries of a map.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from diagnostics.lint.model_folder import ModelFolder, remembered
from diagnostics.spelling import close_to
from diagnostics.tuning.pbtxt import Field, Scalar, TextMessage

ROOT = "ModelConfig"
_MESSAGES = {
    "ModelConfig": (
        "name:string platform:string backend:string runtime:string version_policy:ModelVersionPolicy "
        "max_batch_size:int32 input:ModelInput* output:ModelOutput* batch_input:BatchInput* batch_output:BatchOutput* "
        "optimization:ModelOptimizationPolicy dynamic_batching:ModelDynamicBatching|scheduling_choice "
        "sequence_batching:ModelSequenceBatching|scheduling_choice "
        "ensemble_scheduling:ModelEnsembling|scheduling_choice instance_group:ModelInstanceGroup* "
        "default_model_filename:string cc_model_filenames:{string,string}* metric_tags:{string,string}* "
        "parameters:{string,ModelParameter}* model_warmup:ModelWarmup* model_operations:ModelOperations "
        "model_transaction_policy:ModelTransactionPolicy model_repository_agents:ModelRepositoryAgents "
        "response_cache:ModelResponseCache model_metrics:ModelMetrics"
    ),
    "ModelVersionPolicy": (
        "latest:ModelVersionPolicy.Latest|policy_choice all:ModelVersionPolicy.All|policy_choice "
        "specific:ModelVersionPolicy.Specific|policy_choice"
    ),
    "ModelVersionPolicy.Latest": "num_versions:uint32",
    "ModelVersionPolicy.All": "",
    "ModelVersionPolicy.Specific": "versions:int64*",
    "ModelInput": (
        "name:string data_type:DataType format:ModelInput.Format dims:int64* reshape:ModelTensorReshape "
        "is_shape_tensor:bool allow_ragged_batch:bool optional:bool is_non_linear_format_io:bool"
    ),
    "ModelTensorReshape": "shape:int64*",
    "ModelOutput": (
        "name:string data_type:DataType dims:int64* reshape:ModelTensorReshape label_filename:string "
        "is_shape_tensor:bool is_non_linear_format_io:bool"
    ),
    "BatchInput": "kind:BatchInput.Kind target_name:string* data_type:DataType source_input:string*",
    "BatchOutput": "target_name:string* kind:BatchOutput.Kind source_input:string*",
    "ModelOptimizationPolicy": (
        "graph:ModelOptimizationPolicy.Graph priority:ModelOptimizationPolicy.ModelPriority "
        "cuda:ModelOptimizationPolicy.Cuda execution_accelerators:ModelOptimizationPolicy.ExecutionAccelerators "
        "input_pinned_memory:ModelOptimizationPolicy.PinnedMemoryBuffer "
        "output_pinned_memory:ModelOptimizationPolicy.PinnedMemoryBuffer gather_kernel_buffer_threshold:uint32 "
        "eager_batching:bool"
    ),
    "ModelOptimizationPolicy.Graph": "level:int32",
    "ModelOptimizationPolicy.Cuda": (
        "graphs:bool busy_wait_events:bool graph_spec:ModelOptimizationPolicy.Cuda.GraphSpec* output_copy_stream:bool"
    ),
    "ModelOptimizationPolicy.Cuda.GraphSpec": (
        "batch_size:int32 input:{string,ModelOptimizationPolicy.Cuda.GraphSpec.Shape}* "
        "graph_lower_bound:ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound"
    ),
    "ModelOptimizationPolicy.Cuda.GraphSpec.Shape": "dim:int64*",
    "ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound": (
        "batch_size:int32 input:{string,ModelOptimizationPolicy.Cuda.GraphSpec.Shape}*"
    ),
    "ModelOptimizationPolicy.ExecutionAccelerators": (
        "gpu_execution_accelerator:ModelOptimizationPolicy.ExecutionAccelerators.Accelerator* "
        "cpu_execution_accelerator:ModelOptimizationPolicy.ExecutionAccelerators.Accelerator*"
    ),
    "ModelOptimizationPolicy.ExecutionAccelerators.Accelerator": "name:string parameters:{string,string}*",
    "ModelOptimizationPolicy.PinnedMemoryBuffer": "enable:bool",
    "ModelDynamicBatching": (
        "preferred_batch_size:int32* max_queue_delay_microseconds:uint64 preserve_ordering:bool "
        "priority_levels:uint64 default_priority_level:uint64 default_queue_policy:ModelQueuePolicy "
        "priority_queue_policy:{uint64,ModelQueuePolicy}*"
    ),
    "ModelQueuePolicy": (
        "timeout_action:ModelQueuePolicy.TimeoutAction default_timeout_microseconds:uint64 "
        "allow_timeout_override:bool max_queue_size:uint32"
    ),
    "ModelSequenceBatching": (
        "direct:ModelSequenceBatching.StrategyDirect|strategy_choice "
        "oldest:ModelSequenceBatching.StrategyOldest|strategy_choice max_sequence_idle_microseconds:uint64 "
        "control_input:ModelSequenceBatching.ControlInput* state:ModelSequenceBatching.State* iterative_sequence:bool"
    ),
    "ModelSequenceBatching.StrategyDirect": "max_queue_delay_microseconds:uint64 minimum_slot_utilization:float",
    "ModelSequenceBatching.StrategyOldest": (
        "max_candidate_sequences:int32 preferred_batch_size:int32* max_queue_delay_microseconds:uint64 "
        "preserve_ordering:bool"
    ),
    "ModelSequenceBatching.ControlInput": "name:string control:ModelSequenceBatching.Control*",
    "ModelSequenceBatching.Control": (
        "kind:ModelSequenceBatching.Control.Kind int32_false_true:int32* fp32_false_true:float* bool_false_true:bool* "
        "data_type:DataType"
    ),
    "ModelSequenceBatching.State": (
        "input_name:string output_name:string data_type:DataType dims:int64* "
        "initial_state:ModelSequenceBatching.InitialState* use_same_buffer_for_input_output:bool "
        "use_growable_memory:bool"
    ),
    "ModelSequenceBatching.InitialState": (
        "data_type:DataType dims:int64* zero_data:bool|state_data data_file:string|state_data name:string"
    ),
    "ModelEnsembling": "step:ModelEnsembling.Step* max_inflight_requests:uint32",
    "ModelEnsembling.Step": (
        "model_name:string model_version:int64 input_map:{string,string}* output_map:{string,string}* "
        "model_namespace:string"
    ),
    "ModelInstanceGroup": (
        "name:string kind:ModelInstanceGroup.Kind count:int32 rate_limiter:ModelRateLimiter gpus:int32* "
        "secondary_devices:ModelInstanceGroup.SecondaryDevice* profile:string* passive:bool host_policy:string"
    ),
    "ModelRateLimiter": "resources:ModelRateLimiter.Resource* priority:uint32",
    "ModelRateLimiter.Resource": "name:string global:bool count:uint32",
    "ModelInstanceGroup.SecondaryDevice": "kind:ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind device_id:int64",
    "ModelParameter": "string_value:string",
    "ModelWarmup": "name:string batch_size:uint32 inputs:{string,ModelWarmup.Input}* count:uint32",
    "ModelWarmup.Input": (
        "data_type:DataType dims:int64* zero_data:bool|input_data_type random_data:bool|input_data_type "
        "input_data_file:string|input_data_type"
    ),
    "ModelOperations": "op_library_filename:string*",
    "ModelTransactionPolicy": "decoupled:bool",
    "ModelRepositoryAgents": "agents:ModelRepositoryAgents.Agent*",
    "ModelRepositoryAgents.Agent": "name:string parameters:{string,string}*",
    "ModelResponseCache": "enable:bool",
    "ModelMetrics": "metric_control:ModelMetrics.MetricControl*",
    "ModelMetrics.MetricControl": (
        "metric_identifier:ModelMetrics.MetricControl.MetricIdentifier "
        "histogram_options:ModelMetrics.MetricControl.HistogramOptions|metric_options"
    ),
    "ModelMetrics.MetricControl.MetricIdentifier": "family:string",
    "ModelMetrics.MetricControl.HistogramOptions": "buckets:double*",
}
_ENUMS = {
    "DataType": (
        "TYPE_INVALID TYPE_BOOL TYPE_UINT8 TYPE_UINT16 TYPE_UINT32 TYPE_UINT64 TYPE_INT8 TYPE_INT16 TYPE_INT32 "
        "TYPE_INT64 TYPE_FP16 TYPE_FP32 TYPE_FP64 TYPE_STRING TYPE_BF16"
    ),
    "ModelInput.Format": "FORMAT_NONE FORMAT_NHWC FORMAT_NCHW",
    "BatchInput.Kind": (
        "BATCH_ELEMENT_COUNT BATCH_ACCUMULATED_ELEMENT_COUNT BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO "
        "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE BATCH_ITEM_SHAPE BATCH_ITEM_SHAPE_FLATTEN"
    ),
    "BatchOutput.Kind": "BATCH_SCATTER_WITH_INPUT_SHAPE",
    "ModelOptimizationPolicy.ModelPriority": "PRIORITY_DEFAULT PRIORITY_MAX PRIORITY_MIN",
    "ModelQueuePolicy.TimeoutAction": "REJECT DELAY",
    "ModelSequenceBatching.Control.Kind": (
        "CONTROL_SEQUENCE_START CONTROL_SEQUENCE_READY CONTROL_SEQUENCE_END CONTROL_SEQUENCE_CORRID"
    ),
    "ModelInstanceGroup.Kind": "KIND_AUTO KIND_GPU KIND_CPU KIND_MODEL",
    "ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind": "KIND_NVDLA",
}
_MAP = "{"
WHOLE_NUMBERS = {
    "int32": range(-(2**31), 2**31),
    "uint32": range(2**32),
    "int64": range(-(2**63), 2**63),
    "uint64": range(2**64),
}
"""Types of whole numbers, and what each can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """What a field holds: `type` is a scalar's, an enumeration's or a message's name, or a map's `{key,value}`.

    Attributes:
        choice: name of the group of fields of which only one may be written; empty for none.

    """

    type: str
    repeated: bool = False
    choice: str = ""


@cache
def fields_of(message: str) -> Mapping[str, FieldType]:
    """Return the fields of a message, or of a map's entries, by name; none of a message that is not known."""
    if message.startswith(_MAP):
        key, _, value = message.strip("{}").partition(",")
        return {"key": FieldType(type=key), "value": FieldType(type=value)}
    return {name: _type(rest) for name, _, rest in (part.partition(":") for part in _MESSAGES.get(message, "").split())}


@cache
def is_field(name: str) -> bool:
    """Return whether any message has a field of this name."""
    return any(name in fields_of(message) for message in _MESSAGES)


@cache
def words_of(enumeration: str) -> tuple[str, ...]:
    """Return the words of an enumeration by number from 0; none where it is none."""
    return tuple(_ENUMS.get(enumeration, "").split())


def is_message(type_: str) -> bool:
    """Return whether a value of this type is a block."""
    return type_ in _MESSAGES or type_.startswith(_MAP)


def _type(written: str) -> FieldType:
    kind, _, choice = written.partition("|")
    return FieldType(type=kind.rstrip("*"), repeated=kind.endswith("*"), choice=choice)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedMessage:
    """A message, and the name of its type: `ModelConfig` for the whole file, `{key,value}` for a map's entry."""

    type: str
    message: TextMessage

    @property
    def shown(self) -> str:
        """Return the type's name for people."""
        return "an entry of a map" if self.type.startswith("{") else self.type

    @property
    def types(self) -> Mapping[str, FieldType]:
        """Return the fields that there may be."""
        return fields_of(self.type)

    @property
    def known(self) -> Sequence[tuple[Field, FieldType]]:
        """Return the fields whose type is known, in order."""
        types = self.types
        return [(field, types[field.name]) for field in self.message.fields if field.name in types]

    def unknown(self) -> Iterator[Field]:
        """Yield the fields that there are not; a template is none."""
        types = self.types
        return (field for field in self.message.fields if field.name not in types and "${" not in field.name)


@remembered
def typed_messages(model: ModelFolder) -> tuple[TypedMessage, ...]:
    """Return the messages of known types, outer ones before what they hold; none where nothing can be read."""
    return tuple(_within(model.config.message, ROOT)) if model.config else ()


def _within(message: TextMessage, type_: str) -> Iterator[TypedMessage]:
    found = TypedMessage(type=type_, message=message)
    yield found
    for field, held in found.known:
        if is_message(held.type):
            for value in field.values():
                if isinstance(value, TextMessage):
                    yield from _within(value, held.type)


_FLAGS = frozenset({"true", "True", "t", "false", "False", "f"})
_QUOTES = ("'", '"')
_FLOATS = frozenset({"float", "double"})
_FLOAT = re.compile(r"-?\s*(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?f?|inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_ESCAPES = re.compile(r"\\(?:[abfnrtv\\?'\"]|[0-7]|x[0-9a-fA-F]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")
_ESCAPED = re.compile(r"\\.", re.DOTALL)


def refusal(scalar: Scalar, type_: str) -> str:
    """Return what a field of this type takes instead of the value, empty where it takes it."""
    if scalar.templates:
        return ""
    if type_ in WHOLE_NUMBERS:
        return _whole_number(scalar, type_)
    if type_ == "string":
        return _string(scalar.text)
    if type_ == "bool":
        flag = scalar.text in _FLAGS or (_signless(scalar) and scalar.integer() in (0, 1))
        return "" if flag else "takes true or false"
    if type_ in _FLOATS:
        return "" if _FLOAT.fullmatch(scalar.text) else "takes a number"
    return _word(scalar, type_)


def nearest(scalar: Scalar, type_: str) -> str:
    """Return the word of an enumeration that is most like the value; empty where none is."""
    near = close_to(scalar.value, words_of(type_), most=1)
    return near[0] if near else ""


def _string(text: str) -> str:
    if not text.startswith(_QUOTES):
        return "takes a text in quotes"
    escapes = _ESCAPED.finditer(text) if "\\" in text else ()
    wrong = [found[0] for found in escapes if not _ESCAPES.match(text, found.start())]
    return f"may not hold {wrong[0]}, which is no escape of text format" if wrong else ""


def _whole_number(scalar: Scalar, type_: str) -> str:
    number, held = scalar.integer(), WHOLE_NUMBERS[type_]
    if number is None or (held.start == 0 and not _signless(scalar)):
        return "takes a whole number" if held.start else "takes a whole number without a sign"
    return "" if number in held else f"takes {held.start} to {held.stop - 1}"


def _word(scalar: Scalar, type_: str) -> str:
    words = words_of(type_)
    if not words or scalar.text in words:
        return ""
    number = scalar.integer()
    if number is not None and number in WHOLE_NUMBERS["int32"]:  # the parser keeps numbers that have no word yet
        return ""
    listed = ", ".join(words[1:] if words[0] == "TYPE_INVALID" else words)
    return f"takes one of {listed}"


def _signless(scalar: Scalar) -> bool:
    return not scalar.text.startswith("-")
