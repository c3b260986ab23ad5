"""Single changes to configurations that load, to hold what `diag lint` says of each against what a real Triton does.

`python -m tests.lint.mistakes` loads every one on a real server and writes `refusals.json` beside this file: the title
of each change, and the reason with which the server refused it, or an empty text where the model loaded.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import urllib3

from diagnostics.demo.environment import ensure_environment
from diagnostics.demo.server import TritonLauncher
from diagnostics.errors import CollectError

REFUSALS = Path(__file__).with_name("refusals.json")
# Answers what a warm-up asks: a server ends when an execution returns fewer responses than it got requests.
CODE = """import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", answer(request))]) for request in requests]


def answer(request):
    given = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
    return numpy.zeros((*given.shape[:-1], 4), numpy.float32)
"""
CRASHED = "the server ends"
ENDLESS = "the load does not end"
_LOAD_SECONDS = 30.0
_OWN = re.compile(r'"([mab])"')
_INPUT = 'input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]'
_OUTPUT = 'output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]'
_GROUP = "instance_group [ { count: 1 kind: KIND_CPU } ]"
MODEL = f'name: "m"\nbackend: "python"\nmax_batch_size: 8\n{_INPUT}\n{_OUTPUT}\n{_GROUP}\n'
_FIRST = 'step { model_name: "a" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "T" } }'
_SECOND = 'step { model_name: "b" model_version: -1 input_map { key: "IN" value: "T" } output_map { key: "OUT" value: "OUT" } }'
ENSEMBLE = (
    f'name: "m"\nplatform: "ensemble"\nmax_batch_size: 8\n{_INPUT}\n{_OUTPUT}\n'
    f"ensemble_scheduling {{\n  {_FIRST}\n  {_SECOND}\n}}\n"
)
_MEMBERS = {name: MODEL.replace('"m"', f'"{name}"') for name in ("a", "b")}
_CONTROL = "control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ]"
SEQUENCES = MODEL + f'sequence_batching {{ direct {{ }} control_input [ {{ name: "START" {_CONTROL} }} ] }}\n'
_STATE = 'input_name: "S_IN" output_name: "S_OUT" data_type: TYPE_FP32 dims: [ 1 ]'
STATEFUL = MODEL + f"sequence_batching {{ direct {{ }} state [ {{ {_STATE} }} ] }}\n"
_SAMPLE = 'name: "w" batch_size: 1 inputs { key: "IN" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } }'
WARM = MODEL + f"model_warmup [ {{ {_SAMPLE} }} ]\n"
_RAGGED = MODEL.replace("dims: [ 4 ] } ]\noutput", "dims: [ -1 ] allow_ragged_batch: true } ]\noutput")
RAGGED = _RAGGED + (
    'batch_input [ { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "INDEX" data_type: TYPE_FP32 '
    'source_input: "IN" } ]\n'
)
SCATTERED = _RAGGED + (
    'batch_output [ { target_name: "OUT" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "IN" } ]\n'
)
_BASES = {
    "model": MODEL,
    "ensemble": ENSEMBLE,
    "sequences": SEQUENCES,
    "stateful": STATEFUL,
    "warm": WARM,
    "ragged": RAGGED,
    "scattered": SCATTERED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change to one of the configurations that load.

    Attributes:
        base: which of them.
        old: what is replaced, once; empty to append.
        new: by what.
        model: whose configuration is changed; `m` is the model that is loaded, `a` and `b` are an ensemble's members.

    """

    base: str
    old: str
    new: str
    model: str = "m"

    def configs(self) -> Mapping[str, str]:
        """Return the repository's configurations by model, after the change."""
        texts = {"m": _BASES[self.base], **(_MEMBERS if self.base == "ensemble" else {})}
        text = texts[self.model]
        if self.old and text.count(self.old) < 1:
            raise ValueError(f"{self.old!r} is not in {self.base}")
        texts[self.model] = text.replace(self.old, self.new, 1) if self.old else f"{text}{self.new}\n"
        return texts

    def write(self, repository: Path, suffix: str = "") -> None:
        """Write the repository, whatever stood there before, with `suffix` behind the names of all its models."""
        shutil.rmtree(repository, ignore_errors=True)
        for name, text in self.configs().items():
            folder = repository / f"{name}{suffix}"
            (folder / "1").mkdir(parents=True)
            (folder / "config.pbtxt").write_text(_OWN.sub(rf'"\1{suffix}"', text), "utf-8")
            (folder / "1/model.py").write_text(CODE, "utf-8")


def _changes() -> Iterator[tuple[str, Change]]:
    """Yield the changes: `base: old → new`, or `base: + new`."""
    for base, rows in _TABLE.items():
        for row in rows:
            old, new, *rest = row
            whose = rest[0] if rest else "m"
            where = base if whose == "m" else f"{base}, {whose}"
            title = f"{where}: {old} → {new}" if old else f"{where}: + {new}"
            yield title, Change(base=base, old=old, new=new, model=whose)


_TABLE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "model": (
        ("", ""),
        # What it is.
        ('name: "m"\n', ""),
        ('name: "m"', 'name: "n"'),
        ('backend: "python"', 'backend: "pythn"'),
        ('backend: "python"', 'backend: "Python"'),
        ('backend: "python"', 'platform: "python"'),
        ('backend: "python"', 'platform: "ensemble"'),
        ('backend: "python"', 'backend: "python" platform: "ensemble"'),
        ('backend: "python"', 'backend: "python" platform: "tensorrt_plan"'),
        ('backend: "python"', 'backend: "python" platform: "onnxruntime_onnx"'),
        ('backend: "python"', 'backend: "python" platform: "pytorch_libtorch"'),
        ('backend: "python"', 'backend: "python" platform: "tensorflow_savedmodel"'),
        ('backend: "python"', 'backend: "python" platform: "custom"'),
        ('backend: "python"', 'backend: "python" platform: "python"'),
        ('backend: "python"', 'backend: "onnxruntime" platform: "tensorrt_plan"'),
        ('backend: "python"', 'backend: "tensorrt" platform: "onnxruntime_onnx"'),
        ('backend: "python"', 'platform: "onnx"'),
        ('backend: "python"', 'platform: "tensorrt"'),
        ('backend: "python"', 'platform: "pytorch"'),
        ('backend: "python"\n', ""),
        ("", 'default_model_filename: "missing.py"'),
        ("", 'default_model_filename: "../model.py"'),
        ("", 'runtime: "libtriton_python.so"'),
        ("", 'runtime: "../libtriton_python.so"'),
        ("", 'cc_model_filenames { key: "8.0" value: "model.py" }'),
        ("", 'metric_tags { key: "team" value: "chat" }'),
        # Batches.
        ("max_batch_size: 8", "max_batch_size: -1"),
        ("max_batch_size: 8", "max_batch_size: 0"),
        ("max_batch_size: 8\n", ""),
        ("max_batch_size: 8", 'max_batch_size: "8"'),
        ("max_batch_size: 8", "max_batch_size: 8.0"),
        ("max_batch_size: 8", "max_batch_size: 3000000000"),
        ("max_batch_size: 8", "max_batch_size: 8 max_batch_size: 4"),
        ("", "dynamic_batching { }"),
        ("", "dynamic_batching: true"),
        ("", "dynamic_batching { } sequence_batching { }"),
        ("", "dynamic_batching { preferred_batch_size: [ 0 ] }"),
        ("", "dynamic_batching { preferred_batch_size: [ -2 ] }"),
        ("", "dynamic_batching { preferred_batch_size: [ 4, 8 ] }"),
        ("", "dynamic_batching { preferred_batch_size: [ 8, 4, 4 ] }"),
        ("", "dynamic_batching { preferred_batch_size: [ 4, 16 ] }"),
        ("", "dynamic_batching { max_queue_delay_microseconds: -5 }"),
        ("", "dynamic_batching { max_queue_delay_microseconds: 1.5 }"),
        ("", "dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }"),
        ("", "dynamic_batching { max_queue_delay_ms: 5 }"),
        ("max_batch_size: 8", "max_batch_size: 0\ndynamic_batching { }"),
        ("max_batch_size: 8", "max_batch_size: 0\ndynamic_batching { preferred_batch_size: [ 4 ] }"),
        ("", "dynamic_batching { preserve_ordering: true }"),
        ("", "dynamic_batching { preserve_ordering: yes }"),
        ("", "dynamic_batching { priority_levels: 2 }"),
        ("", "dynamic_batching { priority_levels: 2 default_priority_level: 1 }"),
        ("", "dynamic_batching { priority_levels: 2 default_priority_level: 3 }"),
        ("", "dynamic_batching { default_priority_level: 1 }"),
        (
            "",
            "dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 0 value { } } }",
        ),
        (
            "",
            "dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } } }",
        ),
        (
            "",
            "dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy "
            "{ key: 2 value { max_queue_size: 4 } } }",
        ),
        ("", "dynamic_batching { priority_queue_policy { key: 1 value { max_queue_size: 4 } } }"),
        ("", "dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }"),
        ("", "dynamic_batching { preserve_ordering: true priority_levels: 1 default_priority_level: 1 }"),
        (
            "",
            "dynamic_batching { preserve_ordering: true default_queue_policy "
            "{ timeout_action: DELAY default_timeout_microseconds: 1000 } }",
        ),
        (
            "",
            "dynamic_batching { preserve_ordering: true default_queue_policy "
            "{ timeout_action: REJECT default_timeout_microseconds: 1000 } }",
        ),
        ("", "dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY } }"),
        (
            "",
            "dynamic_batching { preserve_ordering: true priority_levels: 1 default_priority_level: 1 "
            "priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 1000 } } }",
        ),
        ("", "dynamic_batching { default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1000 } }"),
        ("", "dynamic_batching { default_queue_policy { timeout_action: DROP } }"),
        ("", "dynamic_batching { default_queue_policy { max_queue_size: 10 } }"),
        ("", "dynamic_batching { default_queue_policy { max_queue_size: -1 } }"),
        ("", "dynamic_batching { default_queue_policy { allow_timeout_override: true } }"),
        # Tensors.
        (f"{_INPUT}\n", ""),
        (f"{_OUTPUT}\n", ""),
        ('name: "IN"', 'name: ""'),
        ('name: "IN" ', ""),
        ('name: "OUT" ', ""),
        ('name: "IN" data_type: TYPE_FP32', 'name: "IN"'),
        ('name: "OUT" data_type: TYPE_FP32', 'name: "OUT"'),
        ("TYPE_FP32", "TYPE_INVALID"),
        ("TYPE_FP32", "FP32"),
        ("TYPE_FP32", "TYPE_FLOAT"),
        ("TYPE_FP32", "TYPE_FLOAT32"),
        ("TYPE_FP32", "TYPE_BYTES"),
        ("TYPE_FP32", "TYPE_STRING"),
        ("TYPE_FP32", "TYPE_BF16"),
        ("TYPE_FP32", "type_fp32"),
        ("TYPE_FP32", '"TYPE_FP32"'),
        ("TYPE_FP32", "11"),
        ("TYPE_FP32", "99"),
        ("dims: [ 4 ]", ""),
        ("dims: [ 4 ]", "dims: [ ]"),
        ("dims: [ 4 ]", "dims: [ 0 ]"),
        ("dims: [ 4 ]", "dims: [ -2 ]"),
        ("dims: [ 4 ]", "dims: [ -1 ]"),
        ("dims: [ 4 ]", "dims: [ 4.0 ]"),
        ("dims: [ 4 ]", "dims: 4"),
        ("dims: [ 4 ]", "dims [ 4 ]"),
        ("dims: [ 4 ]", "dims: [ 4, ]"),
        ("dims: [ 4 ]", "dims: [ 4 4 ]"),
        ("dims: [ 4 ]", "shape: [ 4 ]"),
        (' } ]\noutput [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ]', ' } ]\noutput [ { name: "OUT" data_type: TYPE_FP32'),
        (' } ]\noutput [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ]', ' } ]\noutput [ { name: "OUT" data_type: TYPE_FP32 dims: [ 0 ]'),
        ("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 2, 2 ] }"),
        ("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 2 ] }"),
        ("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 0 ] }"),
        ("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ -1 ] }"),
        ("dims: [ 4 ]", "dims: [ -1 ] reshape { shape: [ 4 ] }"),
        ("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ ] }"),
        ("dims: [ 4 ]", "dims: [ 1 ] reshape { shape: [ ] }"),
        ("dims: [ 4 ]", "dims: [ 1 ] reshape { }"),
        ("dims: [ 4 ]", "dims: [ -1 ] reshape { shape: [ ] }"),
        ("dims: [ 4 ]", "dims: [ 2, -1, 3 ] reshape { shape: [ -1, 6 ] }"),
        ("dims: [ 4 ]", "dims: [ 2, 2, -1 ] reshape { shape: [ 4, -1 ] }"),
        ("dims: [ 4 ]", "dims: [ 2, 3, -1 ] reshape { shape: [ 4, -1 ] }"),
        ("dims: [ 4 ]", "dims: [ -1, -1 ] reshape { shape: [ -1 ] }"),
        ("max_batch_size: 8", "max_batch_size: 0 input [ { name: 'S' data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]"),
        ("dims: [ 4 ]", "format: FORMAT_NHWC dims: [ 4 ]"),
        ("dims: [ 4 ]", "format: FORMAT_NCHW dims: [ 3, 4 ]"),
        ("dims: [ 4 ]", "format: FORMAT_NCHW dims: [ 3, 4, 4 ]"),
        ("dims: [ 4 ]", "format: FORMAT_NCHW dims: [ 1, 3, 4, 4 ]"),
        ("dims: [ 4 ]", "format: FORMAT_NONE dims: [ 4 ]"),
        ("dims: [ 4 ]", "format: NCHW dims: [ 3, 4, 4 ]"),
        ("dims: [ 4 ]", "is_shape_tensor: true dims: [ 4 ]"),
        ("dims: [ 4 ]", "is_shape_tensor: false dims: [ 4 ]"),
        ("dims: [ 4 ]", "is_non_linear_format_io: true dims: [ 4 ]"),
        ("dims: [ 4 ]", "is_non_linear_format_io: true dims: [ 4, 4, 4 ]"),
        ("dims: [ 4 ]", "allow_ragged_batch: true dims: [ -1 ]"),
        ("dims: [ 4 ]", "allow_ragged_batch: true dims: [ 4 ]"),
        ("dims: [ 4 ]", "optional: true dims: [ 4 ]"),
        ("dims: [ 4 ]", 'label_filename: "labels.txt" dims: [ 4 ]'),
        ('name: "OUT"', 'name: "OUT" label_filename: "labels.txt"'),
        ('name: "OUT"', 'name: "OUT" is_shape_tensor: true'),
        ('name: "OUT"', 'name: "OUT" is_non_linear_format_io: true'),
        ('name: "OUT"', 'name: "OUT" optional: true'),
        ("", 'input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]'),
        (_INPUT, _INPUT.replace("} ]", '}, { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]')),
        ("", 'input [ { name: "IN" data_type: TYPE_INT32 dims: [ 2 ] } ]'),
        ("", 'output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]'),
        ("", 'output [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]'),
        # Instances.
        (f"{_GROUP}\n", ""),
        ("count: 1", "count: 0"),
        ("count: 1", "count: -1"),
        ("count: 1", 'count: "1"'),
        ("kind: KIND_CPU", "kind: KIND_CPUS"),
        ("kind: KIND_CPU", "kind: CPU"),
        ("kind: KIND_CPU", "kind: KIND_MODEL"),
        ("kind: KIND_CPU", "kind: KIND_AUTO"),
        ("kind: KIND_CPU", "kind: KIND_CPU gpus: [ 0 ]"),
        ("kind: KIND_CPU", "kind: KIND_MODEL gpus: [ 0 ]"),
        ("kind: KIND_CPU", "kind: KIND_AUTO gpus: [ 0 ]"),
        ("kind: KIND_CPU", "kind: KIND_CPU passive: true"),
        ("kind: KIND_CPU", 'kind: KIND_CPU profile: [ "0" ]'),
        ("kind: KIND_CPU", 'kind: KIND_CPU host_policy: "none"'),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { resources [ { name: 'R' count: 1 } ] priority: 2 }"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { resources [ { name: 'R' count: 0 } ] }"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { resources [ { count: 1 } ] }"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { resources [ { name: 'R' global: true count: 1 }, { name: 'R' count: 1 } ] }"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { priority: -1 }"),
        ("kind: KIND_CPU", "kind: KIND_CPU secondary_devices [ { kind: KIND_NVDLA device_id: 0 } ]"),
        ("", "instance_group [ { name: 'x' kind: KIND_CPU }, { name: 'x' kind: KIND_CPU } ]"),
        ("kind: KIND_CPU", "kind: KIND_GPU gpus: [ 7 ]"),
        ("kind: KIND_CPU", "kind: KIND_GPU gpus: [ -1 ]"),
        ("kind: KIND_CPU", "kind: KIND_GPU gpus: [ 0, 0 ]"),
        ("kind: KIND_CPU", "kind: KIND_CPU gpus: [ ]"),
        ("kind: KIND_CPU", "kind: KIND_CPU name: 'm_0'"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { }"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { resources [ { name: 'R' count: -1 } ] }"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { resources [ { name: 'R' } ] }"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { resources [ { name: 'R' count: 1 }, { name: 'R' count: 2 } ] }"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { resources [ { name: 'R S' global: true count: 1000000 } ] }"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { resources [ 'R' ] }"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter { resources { name: 'R' count: 1 } }"),
        ("kind: KIND_CPU", "kind: KIND_CPU rate_limiter [ { priority: 1 }, { priority: 2 } ]"),
        (f"{_GROUP}\n", "instance_group [ ]\n"),
        (f"{_GROUP}\n", "instance_group [ { } ]\n"),
        ("", "instance_group [ { passive: true kind: KIND_CPU } ]"),
        ("instance_group [", "instance_groups ["),
        # Versions.
        ("", "version_policy { latest { num_versions: 1 } }"),
        ("", "version_policy { latest { num_versions: 0 } }"),
        ("", "version_policy { latest { num_versions: -1 } }"),
        ("", "version_policy { latest { } }"),
        ("", "version_policy { all { } }"),
        ("", "version_policy { specific { versions: [ 1 ] } }"),
        ("", "version_policy { specific { versions: [ 2 ] } }"),
        ("", "version_policy { specific { versions: [ 1, 2 ] } }"),
        ("", "version_policy { specific { versions: [ ] } }"),
        ("", "version_policy { specific { } }"),
        ("", "version_policy { specific { versions: [ 1, 1 ] } }"),
        ("", "version_policy { specific { versions: [ 0 ] } }"),
        ("", "version_policy { specific { versions: [ -1 ] } }"),
        ("", "version_policy { specific { versions: 1 } }"),
        ("", "version_policy { specific { versions: [ '1' ] } }"),
        ("", "version_policy { latest { num_versions: 2 } }"),
        ("", "version_policy { latest { num_versions: 4294967296 } }"),
        ("", "version_policy { all: true }"),
        ("", "version_policy { }"),
        ("", "version_policy: { latest: { num_versions: 1 } all: { } }"),
        ("", 'version_policy: "latest"'),
        # The rest of its settings.
        ("", "model_transaction_policy { decoupled: true }"),
        ("", "model_transaction_policy { decoupled: yes }"),
        ("", "response_cache { enable: true }"),
        ("", "response_cache { enable: true } model_transaction_policy { decoupled: true }"),
        ("", "response_cache { }"),
        ("", "response_cache { enable: 'true' }"),
        ("", "response_cache: true"),
        ("", "response_cache { enable: true } dynamic_batching { }"),
        ("", "response_cache { enable: false } model_transaction_policy { decoupled: true }"),
        ("", "dynamic_batching { } model_transaction_policy { decoupled: true }"),
        ("", "dynamic_batching { preserve_ordering: true } model_transaction_policy { decoupled: true }"),
        ("", "dynamic_batching { } model_transaction_policy { }"),
        ("", "sequence_batching { iterative_sequence: true } model_transaction_policy { decoupled: true }"),
        ("", "model_transaction_policy { decoupled: 1 }"),
        ("", "model_transaction_policy: { decoupled: true, }"),
        ("", "response_cache { enable: true } sequence_batching { }"),
        ("", "optimization { priority: PRIORITY_MAX }"),
        ("", "optimization { priority: HIGH }"),
        ("", "optimization { input_pinned_memory { enable: false } }"),
        ("", "optimization { execution_accelerators { gpu_execution_accelerator [ { name: 'tensorrt' } ] } }"),
        ("", "optimization { execution_accelerators { cpu_execution_accelerator [ { name: 'nothing' } ] } }"),
        ("", "optimization { cuda { graphs: true } }"),
        ("", "optimization { eager_batching: true }"),
        ("", "optimization { graph { level: 5 } }"),
        ("", 'parameters { key: "k" value { string_value: "v" } }'),
        ("", 'parameters { key: "k" value: "v" }'),
        ("", 'parameters { key: "k" string_value: "v" }'),
        ("", 'parameters { key: "k" value { string_value: 4 } }'),
        ("", 'parameters: { "k": "v" }'),
        ("", 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/nowhere/env.tar.gz" } }'),
        ("", 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "maybe" } }'),
        ("", 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }'),
        ("", 'parameters { key: "" value { string_value: "v" } }'),
        ("", 'parameters { value { string_value: "v" } }'),
        ("", 'parameters { key: "k" }'),
        ("", 'parameters { key: "k" value { string_value: "v" } } parameters { key: "k" value { string_value: "w" } }'),
        ("", 'parameters [ { key: "k" value { string_value: "v" } }, { key: "l" value { string_value: "" } } ]'),
        ("", 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "" } }'),
        ("", 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { } }'),
        ("", 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "" } }'),
        ("", 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }'),
        ("", 'model_operations { op_library_filename: [ "ops.so" ] }'),
        ("", 'model_repository_agents { agents [ { name: "checksum" } ] }'),
        ("", 'ensemble_scheduling { step [ { model_name: "a" model_version: -1 } ] }'),
        # Text format.
        ("", "}"),
        ("", "{"),
        ("", "modelname: 'x'"),
        ("", "// a comment"),
        ("", "# a comment"),
        ("", "version_policy { all { } "),
        ("data_type: TYPE_FP32", "data_type: 'TYPE_FP32'"),
        ('backend: "python"', "backend: 'python'"),
        ('name: "m"', "name: m"),
        ('name: "m"', 'name: "m",'),
        ('name: "m"', 'name: "m";'),
        ('name: "m"', 'name = "m"'),
        ("{ count: 1", "{ count: 1,"),
        ("{ count: 1", "{ count 1"),
        ("instance_group [ {", "instance_group: [ {"),
    ),
    "ensemble": (
        ("", ""),
        ('platform: "ensemble"', ""),
        ('platform: "ensemble"', 'platform: "Ensemble"'),
        ('platform: "ensemble"', 'backend: "ensemble"'),
        ('platform: "ensemble"', 'platform: "ensemble" backend: "python"'),
        ("", "instance_group [ { count: 1 } ]"),
        ("", "optimization { priority: PRIORITY_MAX }"),
        ("", "optimization { }"),
        ("", f"model_warmup [ {{ {_SAMPLE} }} ]"),
        ("", "dynamic_batching { }"),
        ("", "response_cache { enable: true }"),
        ("", "model_transaction_policy { decoupled: true }"),
        ("", "parameters { key: 'k' value { string_value: 'v' } }"),
        ("", "version_policy { all { } }"),
        (f"{_FIRST}\n  {_SECOND}\n", "\n"),
        (f"ensemble_scheduling {{\n  {_FIRST}\n  {_SECOND}\n}}\n", ""),
        ('model_name: "a"', 'model_name: "c"'),
        (f"{_FIRST}\n  {_SECOND}", _FIRST.replace('"a"', '"c"').replace('"T"', '"OUT"')),
        ('model_name: "a" ', ""),
        ('model_name: "a"', 'model_name: "m"'),
        ("model_version: -1", ""),
        ("model_version: -1", "model_version: 1"),
        ("model_version: -1", "model_version: 0"),
        ("model_version: -1", "model_version: 2"),
        ("model_version: -1", "model_version: -2"),
        ('key: "IN" value: "IN"', 'key: "INPUT" value: "IN"'),
        ('key: "IN" value: "IN"', 'key: "IN" value: "INPUT"'),
        ('key: "IN" value: "IN"', 'key: "" value: "IN"'),
        ('key: "IN" value: "IN"', 'key: "IN" value: ""'),
        ('key: "IN" value: "IN"', 'key: "IN"'),
        ('key: "IN" value: "IN"', 'value: "IN"'),
        ('key: "OUT" value: "T"', 'key: "OUT" value: ""'),
        ('key: "OUT" value: "T"', 'key: "OUT"'),
        ('input_map { key: "IN" value: "IN" }', 'input_map { "IN": "IN" }'),
        ('input_map { key: "IN" value: "IN" }', 'input_map { key: "IN" value: "IN" } input_map { key: "IN" value: "IN" }'),
        ('input_map { key: "IN" value: "IN" }', 'input_map [ { key: "IN" value: "IN" } ]'),
        ('output_map { key: "OUT" value: "T" }', 'output_map { key: "OUT" value: "T" } output_map { key: "OUT" value: "U" }'),
        (f"{_FIRST}\n  {_SECOND}", f"{_SECOND}\n  {_FIRST}"),
        (f"{_FIRST}\n", f"{_FIRST}\n  {_FIRST}\n"),
        (f"{_FIRST}\n", ""),
        (f"{_SECOND}\n", ""),
        ("step {", "steps {"),
        ('model_name: "a"', 'model: "a"'),
        ('model_name: "a"', 'model_name: "a" model_namespace: "other"'),
        ("", "ensemble_scheduling { }"),
        ("", "version_policy { specific { versions: [ 2 ] } }"),
        ("", "dynamic_batching { }", "a"),
        ("", "response_cache { enable: true }", "a"),
        ("", "response_cache { enable: true } model_transaction_policy { decoupled: true }", "a"),
        ("", "version_policy { latest { num_versions: 0 } }", "a"),
        ("count: 1", "count: 0", "a"),
        ("kind: KIND_CPU", "kind: KIND_CPU passive: true", "a"),
        ("max_batch_size: 8", "max_batch_size: 8 max_batch_size: 8", "a"),
        (f"{_OUTPUT}\n", "", "b"),
        ('name: "IN"', 'name: "INPUT"', "b"),
        ('name: "OUT"', 'name: "RESULT"', "b"),
        ("TYPE_FP32", "TYPE_INVALID", "b"),
        ('input_map { key: "IN" value: "IN" }', ""),
        ('output_map { key: "OUT" value: "T" }', ""),
        ('key: "OUT" value: "T"', 'key: "RESULT" value: "T"'),
        ('key: "OUT" value: "T"', 'key: "OUT" value: "U"'),
        ('key: "IN" value: "T"', 'key: "IN" value: "IN"'),
        ('key: "OUT" value: "OUT"', 'key: "OUT" value: "IN"'),
        ('key: "OUT" value: "OUT"', 'key: "OUT" value: "T"'),
        ('key: "OUT" value: "OUT"', 'key: "OUT" value: "RESULT"'),
        ('input_map { key: "IN" value: "IN" }', 'input_map { key: "IN" value: "IN" } input_map { key: "MORE" value: "IN" }'),
        ("dims: [ 4 ]", "dims: [ 5 ]"),
        ("dims: [ 4 ]", "dims: [ -1 ]"),
        ("dims: [ 4 ]", "dims: [ 4, 1 ]"),
        ("dims: [ 4 ]", "dims: [ 0 ]"),
        ("dims: [ 4 ]", ""),
        ("TYPE_FP32", "TYPE_FP16"),
        ("TYPE_FP32", "TYPE_INVALID"),
        ("max_batch_size: 8", "max_batch_size: 16"),
        ("max_batch_size: 8", "max_batch_size: 4"),
        ("max_batch_size: 8", "max_batch_size: 0"),
        ("max_batch_size: 8\n", ""),
        ("max_batch_size: 8", "max_batch_size: 4", "a"),
        ("max_batch_size: 8", "max_batch_size: 16", "a"),
        ("max_batch_size: 8", "max_batch_size: 0", "a"),
        ("max_batch_size: 8", "max_batch_size: 0", "b"),
        ("TYPE_FP32", "TYPE_FP16", "a"),
        ("dims: [ 4 ]", "dims: [ 5 ]", "a"),
        ("dims: [ 4 ]", "dims: [ -1 ]", "a"),
        ("dims: [ 4 ]", "dims: [ 2, 2 ]", "a"),
        ("dims: [ 4 ]", "dims: [ 4, 4 ]", "b"),
        ("dims: [ 4 ] } ]\noutput", "dims: [ 4 ] optional: true } ]\noutput", "a"),
        ("", 'input [ { name: "MORE" data_type: TYPE_FP32 dims: [ 4 ] } ]', "a"),
        ("", 'input [ { name: "MORE" data_type: TYPE_FP32 dims: [ 4 ] optional: true } ]', "a"),
        ("", 'output [ { name: "MORE" data_type: TYPE_FP32 dims: [ 4 ] } ]', "a"),
        ("", "model_transaction_policy { decoupled: true }", "a"),
        ("", f'sequence_batching {{ direct {{ }} control_input [ {{ name: "START" {_CONTROL} }} ] }}', "a"),
        ("", "version_policy { specific { versions: [ 2 ] } }", "a"),
        ('name: "a"', 'name: "z"', "a"),
        ('backend: "python"', 'backend: "pythn"', "a"),
        ("", 'input [ { name: "SPARE" data_type: TYPE_FP32 dims: [ 4 ] } ]'),
        ("", 'output [ { name: "SPARE" data_type: TYPE_FP32 dims: [ 4 ] } ]'),
        ("", 'output [ { name: "T" data_type: TYPE_FP32 dims: [ 4 ] } ]'),
        ("", _INPUT),
        ("", _OUTPUT),
        ("", _INPUT, "a"),
    ),
    "sequences": (
        ("", ""),
        ("direct { }", ""),
        ("direct { }", "oldest { }"),
        ("direct { }", "oldest { max_candidate_sequences: 4 }"),
        ("direct { }", "oldest { max_candidate_sequences: 0 }"),
        ("direct { }", "oldest { max_candidate_sequences: -4 }"),
        ("direct { }", "oldest { max_candidate_sequences: 4 preferred_batch_size: [ 16 ] }"),
        ("direct { }", "oldest { max_candidate_sequences: 4 preferred_batch_size: [ 0 ] }"),
        ("direct { }", "oldest { max_candidate_sequences: 4 preferred_batch_size: [ 4 ] }"),
        ("direct { }", "direct { minimum_slot_utilization: 0.5 }"),
        ("direct { }", "direct { minimum_slot_utilization: 1.5 }"),
        ("direct { }", "direct { minimum_slot_utilization: -0.5 }"),
        ("direct { }", "direct { } oldest { }"),
        ("direct { }", "direct { } max_sequence_idle_microseconds: 1000000"),
        ("direct { }", "direct { } max_sequence_idle_microseconds: -1"),
        ("direct { }", "direct { } max_sequence_idle_microseconds: 0"),
        ("direct { }", "direct { max_queue_delay_microseconds: 100 }"),
        ("direct { }", "direct { max_queue_delay_microseconds: 100 minimum_slot_utilization: 1 }"),
        ("direct { }", "direct { max_candidate_sequences: 4 }"),
        ("direct { }", "oldest { max_candidate_sequences: 4 max_queue_delay_microseconds: 100 }"),
        ("direct { }", "oldest { max_candidate_sequences: 4 preserve_ordering: true }"),
        ("direct { }", "oldest { max_candidate_sequences: 4 preferred_batch_size: [ 4, 4 ] }"),
        ("direct { }", "oldest { max_candidate_sequences: 4294967296 }"),
        ("direct { }", "direct { } generative_sequence: true"),
        ("CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY"),
        ("CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_END"),
        ("CONTROL_SEQUENCE_START", "0"),
        ("CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ]", "CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT32"),
        ("CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ]", "CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64"),
        ("CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ]", "CONTROL_SEQUENCE_CORRID data_type: TYPE_INT16"),
        ("fp32_false_true: [ 0, 1 ]", "fp32_false_true: [ 1, 0 ]"),
        ("fp32_false_true: [ 0, 1 ]", "fp32_false_true: [ ]"),
        ("[ 0, 1 ]", "[ 0, 'one' ]"),
        ('name: "START"', 'name: ""'),
        ('name: "START"', 'name: "OUT"'),
        (f"{_CONTROL}", "control [ ]"),
        ("max_batch_size: 8", "max_batch_size: 1"),
        ("", "dynamic_batching { }"),
        ("", f"model_warmup [ {{ {_SAMPLE} }} ]"),
        ("direct { }", "direct { } iterative_sequence: true"),
        ('name: "START" ', ""),
        ("[ 0, 1 ]", "[ 0 ]"),
        ("[ 0, 1 ]", "[ 0, 1, 2 ]"),
        ("fp32_false_true: [ 0, 1 ]", ""),
        ("fp32_false_true", "int32_false_true"),
        ("fp32_false_true: [ 0, 1 ]", "bool_false_true: [ false, true ]"),
        ("fp32_false_true: [ 0, 1 ]", "bool_false_true: [ 0, 1 ]"),
        ("fp32_false_true: [ 0, 1 ]", "fp32_false_true: [ 0, 1 ] int32_false_true: [ 0, 1 ]"),
        ("fp32_false_true: [ 0, 1 ]", "fp32_false_true: [ 0, 1 ] data_type: TYPE_FP32"),
        ("fp32_false_true: [ 0, 1 ]", "data_type: TYPE_FP32"),
        ("CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_BEGIN"),
        ("CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ]", "CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64"),
        ("CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ]", "CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING"),
        ("CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ]", "CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32"),
        ("CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ]", "CONTROL_SEQUENCE_CORRID"),
        ("CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ]", "CONTROL_SEQUENCE_CORRID int32_false_true: [ 0, 1 ]"),
        (f'{{ name: "START" {_CONTROL} }}', f'{{ name: "START" {_CONTROL} }}, {{ name: "AGAIN" {_CONTROL} }}'),
        (
            f'{{ name: "START" {_CONTROL} }}',
            f'{{ name: "START" {_CONTROL} }}, '
            '{ name: "START" control [ { kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 1 ] } ] }',
        ),
        (
            f'{{ name: "START" {_CONTROL} }}',
            f'{{ name: "START" {_CONTROL} }}, '
            '{ name: "END" control [ { kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 1 ] } ] }',
        ),
        (f'control_input [ {{ name: "START" {_CONTROL} }} ]', ""),
        ("max_batch_size: 8", "max_batch_size: 0"),
        ('name: "START"', 'name: "IN"'),
        ("direct { }", "direct { } preferred_batch_size: [ 4 ]"),
        ("", "response_cache { enable: true }"),
        ("", "model_transaction_policy { decoupled: true }"),
    ),
    "stateful": (
        ("", ""),
        ('input_name: "S_IN" ', ""),
        ('output_name: "S_OUT" ', ""),
        ('output_name: "S_OUT"', 'output_name: "S_IN"'),
        ('input_name: "S_IN"', 'input_name: "IN"'),
        ("data_type: TYPE_FP32 dims: [ 1 ]", "dims: [ 1 ]"),
        ("dims: [ 1 ]", ""),
        ("dims: [ 1 ]", "dims: [ 0 ]"),
        ("dims: [ 1 ]", "dims: [ -1 ]"),
        ("dims: [ 1 ]", "dims: [ -2 ]"),
        ("dims: [ 1 ]", 'dims: [ 1 ] initial_state { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true name: "i" }'),
        ("dims: [ 1 ]", 'dims: [ 1 ] initial_state { data_type: TYPE_FP16 dims: [ 1 ] zero_data: true name: "i" }'),
        ("dims: [ 1 ]", 'dims: [ 1 ] initial_state { data_type: TYPE_FP32 dims: [ 2 ] zero_data: true name: "i" }'),
        ("dims: [ 1 ]", 'dims: [ 1 ] initial_state { data_type: TYPE_FP32 dims: [ -1 ] zero_data: true name: "i" }'),
        ("dims: [ 1 ]", "dims: [ 1 ] initial_state { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true }"),
        ("dims: [ 1 ]", 'dims: [ 1 ] initial_state { data_type: TYPE_FP32 dims: [ 1 ] name: "i" }'),
        ("dims: [ 1 ]", 'dims: [ 1 ] initial_state { data_type: TYPE_FP32 dims: [ 1 ] data_file: "x" name: "i" }'),
        ("dims: [ 1 ]", "dims: [ 1 ] use_same_buffer_for_input_output: true"),
        ("dims: [ 1 ]", "dims: [ 1 ] use_growable_memory: true"),
        ("dims: [ 1 ]", "dims: [ 1 ] use_growable_memory: true use_same_buffer_for_input_output: true"),
        ('output_name: "S_OUT"', 'output_name: "OUT"'),
        ('input_name: "S_IN"', 'input_name: "OUT"'),
        ("data_type: TYPE_FP32 dims: [ 1 ]", "data_type: TYPE_STRING dims: [ 1 ]"),
        ("data_type: TYPE_FP32 dims: [ 1 ]", "data_type: TYPE_INVALID dims: [ 1 ]"),
        ("data_type: TYPE_FP32 dims: [ 1 ]", "data_type: TYPE_BOOL dims: [ 1, 2 ]"),
        ("dims: [ 1 ]", 'dims: [ 1 ] initial_state { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true name: "i" } initial_state { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true name: "j" }'),
        ("dims: [ 1 ]", 'dims: [ 1 ] initial_state { data_type: TYPE_FP32 zero_data: true name: "i" }'),
        ("dims: [ 1 ]", 'dims: [ 1 ] initial_state { dims: [ 1 ] zero_data: true name: "i" }'),
        ("direct { }", "oldest { max_candidate_sequences: 4 }"),
        ("max_batch_size: 8", "max_batch_size: 0"),
        ("", "model_transaction_policy { decoupled: true }"),
        (f"{{ {_STATE} }}", f"{{ {_STATE} }}, {{ {_STATE} }}"),
    ),
    "warm": (
        ("", ""),
        ('name: "w" ', ""),
        ("batch_size: 1", ""),
        ("batch_size: 1", "batch_size: 0"),
        ("batch_size: 1", "batch_size: 8"),
        ("batch_size: 1", "batch_size: 9"),
        ("batch_size: 1", "batch_size: -1"),
        ("batch_size: 1", "batch_size: 1 count: 0"),
        ("batch_size: 1", "batch_size: 1 count: 2"),
        ('key: "IN"', 'key: "INPUT"'),
        ('key: "IN" ', ""),
        ("value { data_type: TYPE_FP32", "value { data_type: TYPE_FP16"),
        ("value { data_type: TYPE_FP32", "value { data_type: TYPE_INVALID"),
        ("value { data_type: TYPE_FP32", "value {"),
        ("dims: [ 4 ] zero_data", "dims: [ 5 ] zero_data"),
        ("dims: [ 4 ] zero_data", "dims: [ -1 ] zero_data"),
        ("dims: [ 4 ] zero_data", "dims: [ 0 ] zero_data"),
        ("dims: [ 4 ] zero_data", "dims: [ 4, 1 ] zero_data"),
        ("dims: [ 4 ] zero_data", "zero_data"),
        ("zero_data: true", ""),
        ("zero_data: true", "zero_data: false"),
        ("zero_data: true", "random_data: true"),
        ("zero_data: true", "zero_data: true random_data: true"),
        ("zero_data: true", 'input_data_file: "missing"'),
        ("zero_data: true", 'input_data_file: "../missing"'),
        ('name: "w"', 'name: ""'),
        ("batch_size: 1", 'batch_size: "1"'),
        ("batch_size: 1", "batch_size: 1 count: -1"),
        ("inputs {", "input {"),
        ("model_warmup [", "model_warmups ["),
        ("value { data_type: TYPE_FP32", "value { data_type: TYPE_STRING"),
        ("value { data_type: TYPE_FP32", "value { data_type: TYPE_BF16"),
        ("value { data_type: TYPE_FP32", "value { data_type: FP32"),
        ("dims: [ 4 ] zero_data", "dims: [ 2, 2 ] zero_data"),
        ("dims: [ 4 ] zero_data", "dims: [ 8, 4 ] zero_data"),
        ("zero_data: true", 'input_data_file: ""'),
        ("zero_data: true", "random_data: false"),
        ("zero_data: true", "zero_data: 1"),
        ("", f"model_warmup [ {{ {_SAMPLE} }} ]"),
        ("", "model_warmup [ ]"),
        ("", "model_warmup [ { } ]"),
        ("", "dynamic_batching { }"),
        ("kind: KIND_CPU", "kind: KIND_CPU passive: true"),
        (f"{{ {_SAMPLE} }}", f"{{ {_SAMPLE} }}, {{ {_SAMPLE} }}"),
        ("max_batch_size: 8", "max_batch_size: 0"),
        (
            ' inputs { key: "IN" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } }',
            "",
        ),
        (
            "zero_data: true } }",
            'zero_data: true } } inputs { key: "MORE" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } }',
        ),
        ("zero_data: true } }", 'zero_data: true } } inputs { key: "IN" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } }'),
        ('_FP32 dims: [ 4 ] } ]\noutput', '_FP32 dims: [ -1 ] } ]\noutput'),
        ('_FP32 dims: [ 4 ] } ]\noutput', '_STRING dims: [ 4 ] } ]\noutput'),
        ('_FP32 dims: [ 4 ] } ]\noutput', '_FP32 dims: [ 4 ] }, { name: "TWO" data_type: TYPE_FP32 dims: [ 4 ] } ]\noutput'),
    ),
    "ragged": (
        ("", ""),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT", "BATCH_ELEMENTS"),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT", "BATCH_ELEMENT_COUNT"),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT", "BATCH_ITEM_SHAPE"),
        ('data_type: TYPE_FP32 source_input: "IN"', 'data_type: TYPE_INT32 source_input: "IN"'),
        ('data_type: TYPE_FP32 source_input: "IN"', 'data_type: TYPE_INT64 source_input: "IN"'),
        ('data_type: TYPE_FP32 source_input: "IN"', 'source_input: "IN"'),
        ('source_input: "IN"', ""),
        ('source_input: "IN"', 'source_input: "INPUT"'),
        ('source_input: "IN"', 'source_input: [ "IN", "IN" ]'),
        ('target_name: "INDEX"', ""),
        ('target_name: "INDEX"', 'target_name: [ "INDEX", "MORE" ]'),
        ('target_name: "INDEX"', 'target_name: "IN"'),
        ("kind: BATCH_ACCUMULATED_ELEMENT_COUNT ", ""),
        ("allow_ragged_batch: true", ""),
        ("max_batch_size: 8", "max_batch_size: 0"),
    ),
    "scattered": (
        ("", ""),
        ('target_name: "OUT"', 'target_name: "RESULT"'),
        ('target_name: "OUT"', 'target_name: [ "OUT", "OUT" ]'),
        ('target_name: "OUT"', ""),
        ('source_input: "IN"', 'source_input: "INPUT"'),
        ('source_input: "IN"', ""),
        ('source_input: "IN"', 'source_input: [ "IN", "IN" ]'),
        ("kind: BATCH_SCATTER_WITH_INPUT_SHAPE", "kind: BATCH_SCATTER"),
        ("kind: BATCH_SCATTER_WITH_INPUT_SHAPE ", ""),
    ),
}  # fmt: skip
CHANGES: Mapping[str, Change] = dict(_changes())


def refused(server: TritonLauncher, repository: Path, change: Change, suffix: str) -> str:
    """Return why the server does not load the changed model, without what differs from run to run; empty if it does.

    Each change needs a `suffix` of its own: a model that is still unloading is not loaded anew.
    """
    change.write(repository, suffix)
    address = f"{server.http_url}/v2/repository/models/m{suffix}"
    try:
        answer = urllib3.request("POST", f"{address}/load", json={}, retries=False, timeout=_LOAD_SECONDS)
    except urllib3.exceptions.TimeoutError:
        return ENDLESS
    except urllib3.exceptions.HTTPError:
        return CRASHED
    if answer.status == 200:
        urllib3.request("POST", f"{address}/unload", json={"parameters": {"unload_dependents": True}}, retries=False)
        return ""
    return _reason(answer.data.decode("utf-8", "replace"), suffix)


def _reason(text: str, suffix: str) -> str:
    """Return the server's own words in one line, with the models' own names."""
    text = " ".join(text.replace(suffix, "").split())
    text = re.sub(r"/\S*/models\b", "MODELS", text)
    return re.sub(r"line \d+, column \d+|0x[0-9a-f]+|\d{2}:\d{2}:\d{2}\S*", "", text)[:300]


def main() -> int:
    """Load every change on a real server, and write what it refused; with `--missing`, those not known yet alone."""
    known: dict[str, str] = json.loads(REFUSALS.read_text("utf-8")) if "--missing" in sys.argv else {}
    found = {title: reason for title, reason in known.items() if title in CHANGES}
    with tempfile.TemporaryDirectory() as folder:
        left = {title: change for title, change in CHANGES.items() if title not in found}
        for done in of_servers(left, Path(folder) / "models"):
            found |= done
            REFUSALS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    found = {title: found[title] for title in CHANGES}
    REFUSALS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


def of_servers(changes: Mapping[str, Change], repository: Path) -> Iterator[Mapping[str, str]]:
    """Yield what each server says of the changes that the servers before it did not get to."""
    left = dict(changes)
    while left:
        done = _of_one_server(left, repository)
        assert done, "the server does not start"
        left = {title: change for title, change in left.items() if title not in done}
        yield done


def _of_one_server(changes: Mapping[str, Change], repository: Path) -> Mapping[str, str]:
    """Return what one server says of the changes, as far as it gets: some end it, a few of them only at times."""
    shutil.rmtree(repository, ignore_errors=True)
    repository.mkdir()
    found: dict[str, str] = {}
    server = TritonLauncher(ensure_environment(), repository, stop_timeout=0.0)
    with suppress(CollectError), server:  # one that has ended is told of on the way out
        for number, (title, change) in enumerate(changes.items()):
            found[title] = refused(server, repository, change, f"_{number}_")
            print(f"{title}\n    {found[title] or 'loads'}", file=sys.stderr, flush=True)
            if found[title] == CRASHED:
                break
    return found


if __name__ == "__main__":
    sys.exit(main())
