"""The arguments of TensorRT-LLM's LLM API, which stand in the `model.yaml` of a version beside its `model.py`.

Source: TensorRT-LLM, `triton_backend/all_models/llmapi/tensorrt_llm/1`; `tensorrt_llm/llmapi/llm_args.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from diagnostics import names
from diagnostics.errors import CollectError
from diagnostics.lint.block import Text
from diagnostics.lint.deployment_files import yaml_of
from diagnostics.lint.model_folder import ModelFolder, remembered
from diagnostics.lint.problem import SourceLocation, TextFile, joined, read_text
from diagnostics.lint.tensors import steps, tensors
from diagnostics.units import parse_whole

FILE = "model.yaml"
_WORDS = (
    "model tokenizer tokenizer_mode skip_tokenizer_init trust_remote_code revision tokenizer_revision dtype backend "
    "tensor_parallel_size pipeline_parallel_size context_parallel_size gpus_per_node moe_cluster_parallel_size "
    "moe_tensor_parallel_size moe_expert_parallel_size enable_attention_dp enable_lm_head_tp_in_adp pp_partition "
    "cp_config load_format enable_lora max_lora_rank max_loras max_cpu_loras lora_config enable_prompt_adapter "
    "max_prompt_adapter_token quant_config calib_config kv_cache_config enable_chunked_prefill "
    "guided_decoding_backend batched_logits_processor iter_stats_max_iterations request_stats_max_iterations "
    "peft_cache_config scheduler_config cache_transceiver_config sparse_attention_config speculative_config "
    "max_batch_size max_input_len max_seq_len max_beam_width max_num_tokens gather_generation_logits "
    "num_postprocess_workers postprocess_tokenizer_dir reasoning_parser decoding_config return_perf_metrics "
    "perf_metrics_max_requests orchestrator_type garbage_collection_gen0_threshold cuda_graph_config use_cuda_graph "
    "cuda_graph_batch_sizes cuda_graph_max_batch_size cuda_graph_padding_enabled attention_dp_config "
    "disable_overlap_scheduler moe_config moe_backend moe_max_num_tokens moe_load_balancer nvfp4_gemm_config "
    "attn_backend sampler_type kv_cache_dtype enable_iter_perf_stats enable_iter_req_stats print_iter_log "
    "torch_compile_config enable_autotuner enable_layerwise_nvtx_marker enable_min_latency stream_interval "
    "force_dynamic_quantization allreduce_strategy checkpoint_loader checkpoint_format mm_encoder_only "
    "kv_connector_config ray_worker_extension_cls batch_wait_timeout_ms batch_wait_timeout_iters "
    "batch_wait_max_tokens_ratio build_config fast_build enable_tqdm workspace enable_build_cache "
    "extended_runtime_perf_knob_config normalize_log_probs embedding_parallel_mode auto_parallel "
    "auto_parallel_world_size pytorch_backend_config triton_config"
)
KNOWN = frozenset(_WORDS.split())
"""Keys that are documented for releases around 1.0, not all that there are, and the section for `model.py` itself."""


@dataclass(frozen=True, kw_only=True)
class LlmArguments:
    """The file and what it says: an empty tree, and why, where it cannot be read or is no mapping."""

    file: TextFile
    tree: Mapping[str, Any]
    trouble: str = ""

    def section(self, name: str) -> Mapping[str, Any]:
        """Return the mapping below a key; an empty one where there is none."""
        value = self.tree.get(name)
        return value if isinstance(value, Mapping) else {}

    def at(self, *keys: str) -> SourceLocation:
        """Return the place of the last of these keys, each within the one before; that of the file for none."""
        offset = 0
        for key in keys:
            found = re.compile(rf"^[ \t]*(?:- )?(['\"]?{re.escape(key)}['\"]?)[ \t]*:", re.MULTILINE).search(
                self.file.text, offset
            )
            offset = found.start(1) if found else offset
        return self.file.place(offset)


@remembered
def llm_arguments(model: ModelFolder) -> LlmArguments | None:
    """Return those of the newest version that has the file; None where none has."""
    folders = [version for version in reversed(model.versions) if FILE in model.version_files(version)]
    if not folders:
        return None
    name = f"{folders[0]}/{FILE}"
    file = TextFile(path=joined(model.shown, name), text="")
    try:
        file = read_text(model.path / name, file.path)
        documents = yaml_of(file)
    except CollectError as error:
        return LlmArguments(file=file, tree={}, trouble=error.what)
    tree = documents[0] if documents else {}
    if not isinstance(tree, Mapping):
        return LlmArguments(file=file, tree={}, trouble="holds no `key: value` lines")
    return LlmArguments(file=file, tree=tree)


TENSORRT_LLM = "tensorrtllm"
VLLM = "vllm"
_STATIC_ENGINE = "fastertransformer"
DEFAULT_KV_FRACTION = 0.9
"""Of the memory that is free once the engine is loaded: TensorRT-LLM backend, `model_config.md`."""
# Calls through the backend itself, or as any client's, from inside a model.
_CALLS = re.compile(r"\bInferenceRequest\(|\btritonclient\b|/v2/models/")
_WRITTEN_NAME = re.compile(r"""\bmodel_name\s*=\s*f?["']([\w.\-]+)["']|/v2/models/([\w.\-]+)/""")
_OVERLAPPING = re.compile(r"\basync_exec\(|\basyncio\.|\bThreadPoolExecutor\b|\bthreading\.Thread\b")
_TRUE, _FALSE = ("True", "true", "TRUE", "1"), ("False", "false", "FALSE", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltEngine:
    """An engine's own `config.json`: `path` as shown, and what `trtllm-build` wrote."""

    path: str
    tree: Mapping[str, Any]

    def integer(self, *keys: str) -> int | None:
        """Return a whole number by its keys, None when there is none."""
        value = self.value(*keys)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def value(self, *keys: str) -> Any:
        """Return what stands below these keys, None when there is nothing."""
        value: Any = self.tree
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


@remembered
def is_engine(model: ModelFolder) -> bool | None:
    """Return whether it serves a language model that batches by itself; None when its files do not show it."""
    if model.config is None:
        return None
    if model.backend in names.ENGINE_BACKENDS or is_tensorrt_llm(model):
        return True
    if model.backend not in (names.PYTHON_BACKEND, None):
        return False
    inputs = {tensor.name for tensor in tensors(model.config, "input") or ()}
    asks = any(name.startswith(names.LLM_API_SAMPLING) for name in inputs) or names.VLLM_SAMPLING in inputs
    if asks or inputs >= names.RUNTIME_INPUTS or _has_llm_arguments(model):
        return True
    return None if model.backend is None else False


def batches_in_flight(model: ModelFolder) -> bool:
    """Return whether an engine surely adds requests to a batch that runs; FasterTransformer and `V1` do not."""
    static = model.backend == _STATIC_ENGINE or parameter(model, "gpt_model_type") in ("V1", "v1")
    return is_engine(model) is True and not static


@remembered
def is_tensorrt_llm(model: ModelFolder) -> bool:
    """Return whether the TensorRT-LLM backend's parameters stand in it, whether or not its backend is filled in."""
    return model.backend == TENSORRT_LLM or "gpt_model_type" in parameters(model)


@remembered
def parameters(model: ModelFolder) -> Mapping[str, Text]:
    """Return the backend's parameters; a value is None where a template is left, which the backend takes as unset."""
    return model.config.map("parameters") if model.config else {}


def parameter(model: ModelFolder, key: str) -> str | None:
    """Return a parameter's text; None when it is left out, empty or a template."""
    text = parameters(model).get(key)
    return (text.value or None) if text else None


def unset(model: ModelFolder, key: str) -> bool:
    """Return whether a parameter is left out for sure, rather than a template that may become any value."""
    text = parameters(model).get(key)
    hidden = any(not block.complete or not block.text("key") for block in _blocks(model))
    return (text is None or text.value == "") and not hidden and bool(model.config and model.config.complete)


def number(model: ModelFolder, key: str) -> float | None:
    """Return a parameter as a number; None when it is unset, unknown or no number."""
    text = parameter(model, key)
    try:
        found = float(text) if text else None
    except ValueError:
        return None
    return found if found is not None and math.isfinite(found) else None


def flag(model: ModelFolder, key: str) -> bool | None:
    """Return a parameter as the backend reads flags; None when it is unset, unknown or no flag."""
    text = parameter(model, key)
    return True if text in _TRUE else False if text in _FALSE else None


@remembered
def engine_of(model: ModelFolder) -> BuiltEngine | None:
    """Return what the engine was built with, where its folder can be read from here; else None."""
    folders = (parameter(model, names.ENGINE_PATH), *map(str, reversed(model.versions)))
    for folder in filter(None, folders):
        tree = model.json(f"{folder}/config.json")
        if tree is not None and "build_config" in tree:
            return BuiltEngine(path=f"{folder}/config.json", tree=tree)
    return None


@remembered
def vllm_settings(model: ModelFolder) -> Mapping[str, Any]:
    """Return the arguments in the vLLM backend's `model.json` of the newest version; nothing when there is none."""
    found = (model.json(f"{version}/model.json") for version in reversed(model.versions))
    return next((tree for tree in found if tree is not None), {})


def engine_gpus(model: ModelFolder) -> tuple[tuple[int, ...], ...]:
    """Return the GPUs of each instance as `gpu_device_ids` lists them (`0,1;2,3`); nothing when it does not."""
    written = parameter(model, "gpu_device_ids") or ""
    lists = [part.split(",") for part in written.split(";") if part.strip()]
    plain = all(parse_whole(number.strip()) is not None for one in lists for number in one)
    return tuple(tuple(int(number) for number in one) for one in lists) if plain else ()


@remembered
def calls_others(model: ModelFolder) -> bool:
    """Return whether a Python model calls models itself, by its parameters or its code."""
    if any(key.endswith(names.CALLED_MODEL) for key in parameters(model)):
        return True
    return any(_CALLS.search(file.text) for file in code_of(model))


@remembered
def called_models(model: ModelFolder) -> frozenset[str] | None:
    """Return the names of the models that a Python model calls; None when its code may call any.

    They are those of its parameters (`…_model_name`), and those that its code writes out.
    """
    named = {text.value for key, text in parameters(model).items() if key.endswith(names.CALLED_MODEL)}
    code = [file.text for file in code_of(model) if _CALLS.search(file.text)]
    written = {name for text in code for pair in _WRITTEN_NAME.findall(text) for name in pair if name}
    if (code and not named | written) or None in named:
        return None
    return frozenset(filter(None, named | written))


def keeps_several_calls_open(model: ModelFolder) -> bool:
    """Return whether an instance may wait for several calls at once: its code awaits them, or hands them to threads."""
    return any(_OVERLAPPING.search(file.text) for file in code_of(model))


@remembered
def code_of(model: ModelFolder) -> tuple[TextFile, ...]:
    """Return the `model.py` of each version of a Python model that has one."""
    if model.backend != names.PYTHON_BACKEND:
        return ()
    files = (model.read(f"{version}/model.py") for version in model.versions)
    return tuple(file for file in files if file is not None)


def _has_llm_arguments(model: ModelFolder) -> bool:
    """Return whether arguments of TensorRT-LLM's LLM API stand beside the code."""
    return any("model.yaml" in model.version_files(version) for version in model.versions)


def _blocks(model: ModelFolder) -> Iterator[Any]:
    yield from model.config.blocks("parameters") if model.config else ()


_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size")


@remembered
def ranks(model: ModelFolder) -> int | None:
    """Return the ranks of one instance of an engine, each of which takes a GPU; None where its files do not say."""
    if model.backend == VLLM:
        return parallel(vllm_settings(model))
    written = llm_arguments(model)
    if written is not None:
        return None if written.trouble else parallel(written.tree)
    engine = engine_of(model) if is_tensorrt_llm(model) else None
    return ranks_of(engine) if engine else None


def ranks_of(engine: BuiltEngine) -> int | None:
    """Return the ranks that an engine was built for; None when its `config.json` does not say it."""
    mapping = ("pretrained_config", "mapping")
    world = engine.integer(*mapping, "world_size")
    tensor, pipeline = engine.integer(*mapping, "tp_size"), engine.integer(*mapping, "pp_size")
    return world or (tensor * pipeline if tensor and pipeline else None)


def parallel(settings: Mapping[str, Any]) -> int | None:
    """Return tensor × pipeline parallelism, each 1 where it is left out; None where one is no whole number."""
    sizes = [settings.get(key, 1) for key in _PARALLEL]
    return prod(sizes) if all(type(size) is int and size > 0 for size in sizes) else None


Named = Callable[[str], ModelFolder | None]


@remembered
def decoupled(model: ModelFolder) -> bool | None:
    """Return whether a model that is no ensemble is decoupled; None when a template, or its code, may decide.

    Source: vllm_backend, `model.py` (`auto_complete_config`): one that says nothing becomes decoupled. One of the LLM
    API takes it from its `model.yaml`.
    """
    if model.config is None or model.config.has("model_transaction_policy") is None:
        return None
    policy = model.config.block("model_transaction_policy")
    if policy is not None:
        return policy.flag("decoupled")
    if model.backend == VLLM:
        return True
    written = llm_arguments(model)
    if written is not None:
        stated = written.section("triton_config").get("decoupled")
        return stated if isinstance(stated, bool) else None
    sets = model.backend is None or any("set_model_transaction_policy" in file.text for file in code_of(model))
    return None if sets else False


def streams(model: ModelFolder, named: Named) -> bool | None:
    """Return whether a model or an ensemble, of which one member is enough, is decoupled; None when it is unknown.

    Source: Triton core, which sets the policy of ensembles itself: seen on Triton 2.51.
    """
    stated, seen, waiting = set[bool | None](), {model.path}, [model]
    while waiting:
        one = waiting.pop()
        if not one.ensemble or one.config is None:
            stated.add(decoupled(one))
            continue
        members = [named(step.model) if step.model else None for step in steps(one.config)]
        stated |= {None} if None in members else set()
        new = {member.path: member for member in members if member is not None and member.path not in seen}
        seen |= set(new)
        waiting += new.values()
    return True if True in stated else (None if None in stated else False)
