"""Names that stand for names: the same original gives the same pseudonym in every body of a recording."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping

from diagnostics.wire.records import BodyKind

WITHHELD = "withheld"
"""Stands for text that is not known to be harmless."""
_INSTANCE = re.compile(r"(.+?)((?:_[0-9]+){1,2})", re.ASCII)


class Pseudonyms:
    """Pseudonyms under one seed. Without the seed nobody can test a guessed name against them."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    def of(self, sort: str, name: str) -> str:
        """Return `sort-1a2b3c4d` for `name`, and the empty string for the empty name."""
        if not name:
            return ""
        message = f"{sort}\0{name}".encode("utf-8", "surrogatepass")
        return f"{sort}-{hmac.new(self._seed, message, hashlib.sha256).hexdigest()[:8]}"

    def model(self, name: str) -> str:
        """Return the pseudonym of a model."""
        return self.of("model", name)

    def instance(self, name: str) -> str:
        """Return the pseudonym of an instance (`safety_0_1`) or its group (`safety_0`), numbers kept."""
        found = _INSTANCE.fullmatch(name)
        return self.model(found[1]) + found[2] if found else self.of("group", name)


Rule = Callable[[Pseudonyms, str], str | None]
"""What stands for a string; None takes its key away."""

_NUMBER = re.compile(r"\s*[+-]?[0-9][0-9.eE+-]{0,40}(?: kB)?\s*", re.ASCII)
_WORD = re.compile(r"[A-Z][A-Z0-9_]{0,60}", re.ASCII)
_VERSION = re.compile(r"[0-9][0-9.]{0,30}", re.ASCII)
_EXTENSION = re.compile(r"[a-z_]{1,40}(?:\([a-z_]{1,40}\))?", re.ASCII)
_HEX = re.compile(r"[0-9a-fA-F]{0,32}", re.ASCII)
_KERNEL_TABLE = re.compile(
    r"(?:(?:some|full|max|[0-9]+|[a-z_]{1,30}_usec|nr_[a-z]{1,30})"
    r"(?: [a-z0-9]{1,9}=[0-9.]{1,20})*(?: [0-9]{1,20})?\n?)*",
    re.ASCII,
)
_BACKENDS = re.compile(
    r"|ensemble|python|pytorch|tensorrt|tensorrtllm|onnxruntime|openvino|tensorflow|vllm|dali|fil|repeat|square"
    r"|identity|redis|tensorrt_plan|onnxruntime_onnx|pytorch_libtorch|tensorflow_(?:graphdef|savedmodel)"
)
_PRODUCT = re.compile(r"(?:NVIDIA|Tesla|Quadro|GeForce)[A-Za-z0-9 ./()-]{0,60}", re.ASCII)
_PROCESS = re.compile(r"tritonserver|triton_python_b[a-z_]*|python[0-9.]*|mpirun|orted|trtllmExecutorWo[a-z]*")
_SPAN = re.compile(r"InferRequest|compute|triton-server|")
PARAMETERS = frozenset(
    {
        "gpt_model_type",
        "batch_scheduler_policy",
        "batching_type",
        "kv_cache_free_gpu_mem_fraction",
        "max_tokens_in_paged_kv_cache",
        "enable_kv_cache_reuse",
        "enable_chunked_context",
        "kv_cache_host_memory_bytes",
        "max_attention_window_size",
        "max_beam_width",
        "max_queue_size",
        "max_num_sequences",
        "decoupled_mode",
        "decoding_mode",
        "normalize_log_probs",
        "exclude_input_in_output",
        "cancellation_check_period_ms",
        "stats_check_period_ms",
        "bls_instance_count",
        "accumulate_tokens",
        "cuda_graph_mode",
        "gpu_weights_percent",
    }
)
"""Settings of the TensorRT-LLM backend that say how it serves; paths and adapters are not among them."""
_SETTING = re.compile(
    r"(?i)|true|false|[0-9.,eE+-]{1,30}|V1|inflight(?:_fused)?_batching|max_utilization|guaranteed_no_evict"
    r"|auto|top_k|top_p|top_k_top_p|beam_search|medusa"
)


def number(_: Pseudonyms, value: str) -> str | None:
    """Keep a number written as text."""
    return value if _NUMBER.fullmatch(value) else None


def word(_: Pseudonyms, value: str) -> str | None:
    """Keep a constant of a protocol (`KIND_GPU`, `READY`)."""
    return value if _WORD.fullmatch(value) else None


def setting(_: Pseudonyms, value: str) -> str:
    """Keep a number, a switch or a known mode."""
    return value if _SETTING.fullmatch(value) else WITHHELD


def _matching(pattern: re.Pattern[str], sort: str) -> Rule:
    return lambda names, value: value if pattern.fullmatch(value) else names.of(sort, value)


def _withheld(_: Pseudonyms, value: str) -> str:
    return value and WITHHELD


def _sort(sort: str) -> Rule:
    return lambda names, value: names.of(sort, value)


def _only(pattern: re.Pattern[str]) -> Rule:
    return lambda _, value: value if pattern.fullmatch(value) else None


_MODEL: Rule = Pseudonyms.model
TENSOR = _sort("tensor")


def _numbers(keys: str) -> dict[str, Rule]:
    return dict.fromkeys(keys.split(), number)


_STATISTICS = {
    "name": _MODEL,
    "version": _only(_VERSION),
    "type": word,
    **_numbers(
        """
        model_stats last_inference inference_count execution_count inference_stats success fail
        queue cache_hit compute_input compute_infer compute_output cache_miss count ns
        batch_stats batch_size memory_usage id byte_size response_stats empty_response cancel
        """
    ),
}
_INDEX = {
    "name": _MODEL,
    "version": _only(_VERSION),
    "state": word,
    "reason": _withheld,
    **_numbers("models ready"),
}
_SERVER = {
    "name": _matching(re.compile("triton"), "server"),
    "version": _only(_VERSION),
    "extensions": _only(_EXTENSION),
}
CONFIG: Mapping[str, Rule] = {
    "name": _MODEL,
    "platform": _matching(_BACKENDS, "backend"),
    "backend": _matching(_BACKENDS, "backend"),
    "model_name": _MODEL,
    "instance_group.name": Pseudonyms.instance,
    **dict.fromkeys(
        ("input.name", "output.name", "control_input.name", "state.input_name", "state.output_name"), TENSOR
    ),
    **dict.fromkeys(("model_warmup.name", "resources.name"), _sort("sample")),
    "input_map": TENSOR,
    "output_map": TENSOR,
    "source_input": TENSOR,
    **dict.fromkeys(("kind", "data_type", "format", "timeout_action", "default_timeout_action"), word),
    "optimization.priority": word,
    **_numbers(
        """
        config version_policy latest num_versions all specific versions max_batch_size input
        output dims reshape shape is_shape_tensor allow_ragged_batch optional
        is_non_linear_format_io instance_group count gpus passive profile rate_limiter resources
        global priority secondary_devices device_id dynamic_batching preferred_batch_size
        max_queue_delay_microseconds preserve_ordering priority_levels priority_queue_policy
        default_priority_level default_queue_policy default_timeout_microseconds
        allow_timeout_override max_queue_size sequence_batching max_sequence_idle_microseconds
        direct oldest minimum_slot_utilization max_candidate_sequences control_input control
        int32_false_true fp32_false_true bool_false_true state iterative_sequence
        ensemble_scheduling step max_inflight_requests model_version model_warmup batch_size
        model_transaction_policy decoupled response_cache enable optimization eager_batching
        graph cuda graphs gather_kernel_buffer_threshold input_pinned_memory
        output_pinned_memory busy_wait_events output_copy_stream batch_input batch_output
        parameters
        """
    ),
}
_NVML = {
    "uuid": _sort("GPU"),
    "driver_version": _only(_VERSION),
    **dict.fromkeys(("gpus.name",), _matching(_PRODUCT, "product")),
    "processes.name": _matching(_PROCESS, "process"),
    **_numbers(
        """
        t gpus index utilization_gpu_percent utilization_memory_percent memory_total_bytes
        memory_used_bytes power_mw power_limit_mw temperature_c sm_clock_mhz max_sm_clock_mhz
        mem_clock_mhz throttle_reasons total_energy_mj mig_mode processes pid used_memory_bytes
        process_utilization sm_percent mem_percent gpm sm_util sm_occupancy tensor_util
        power_default_limit_mw ecc_uncorrected remapped_rows uncorrected pending failure xids
        dram_bw_util graphics_util pcie_tx_per_sec_mib pcie_rx_per_sec_mib fp16_util fp32_util
        mig_instances gpu_instance compute_instance
        """
    ),
}
_HOST = {
    "model": _MODEL,
    "comm": _matching(_PROCESS, "process"),
    **dict.fromkeys(
        ("pressure_cpu", "pressure_io", "cgroup_pressure_io", "cgroup_cpu_stat", "cgroup_cpu_max"),
        _only(_KERNEL_TABLE),
    ),
    **_numbers(
        """
        t cores cpu_jiffies user nice system idle iowait irq softirq steal guest guest_nice
        clk_tck loadavg meminfo MemTotal MemFree MemAvailable server_pid server_processes pid
        ppid cpu_seconds rss_bytes server_cores run_delay_seconds server_threads tid
        thread_count io_threads stopped_threads
        """
    ),
}
ITERATIONS = _numbers(
    """
    iter iterLatencyMS newActiveRequestsQueueLatencyMS numNewActiveRequests numActiveRequests numQueuedRequests
    numCompletedRequests maxNumActiveRequests maxBatchSizeStatic maxBatchSizeRuntime maxNumTokensStatic
    maxNumTokensRuntime kvCacheStats maxNumBlocks freeNumBlocks usedNumBlocks tokensPerBlock allocTotalBlocks
    allocNewBlocks reusedBlocks missedBlocks cacheHitRate inflightBatchingStats numScheduledRequests
    numContextRequests numGenRequests numPausedRequests numCtxTokens microBatchId avgNumDecodedTokensPerIter
    staticBatchingStats numGenTokens emptyGenSlots
    """
)
"""What an engine says of its iterations: counts, and no name."""
_CLIENT = {"model": _MODEL, **_numbers("t ms ok code")}
_TRACES = {
    "spans.name": lambda names, value: value if _SPAN.fullmatch(value) else names.model(value),
    "scope.name": _matching(_SPAN, "scope"),
    "events.name": word,
    **dict.fromkeys(("traceId", "spanId", "parentSpanId"), _only(_HEX)),
    **_numbers(
        """
        resourceSpans resource scopeSpans scope spans startTimeUnixNano endTimeUnixNano kind
        events timeUnixNano status code flags droppedAttributesCount droppedEventsCount
        droppedLinksCount attributes
        """
    ),
}
ATTRIBUTES: Mapping[str, Rule] = {
    "triton.model_name": _MODEL,
    "service.name": _matching(re.compile("triton-inference-server"), "service"),
    "triton.request_id": _sort("request"),
    **_numbers("triton.model_version triton.trace_id triton.trace_parent_id"),
}
RULES: Mapping[BodyKind, Mapping[str, Rule]] = {
    BodyKind.STATISTICS: _STATISTICS,
    BodyKind.INDEX: _INDEX,
    BodyKind.SERVER: _SERVER,
    BodyKind.CONFIG: CONFIG,
    BodyKind.NVML: _NVML,
    BodyKind.HOST: _HOST,
    BodyKind.CLIENT: _CLIENT,
    BodyKind.TRACES: _TRACES,
}


def rule_for(rules: Mapping[str, Rule], parent: str, key: str) -> Rule | None:
    """Return the rule of `key` below `parent` (both in either spelling), None when it may not stay."""
    key, parent = snake_case(key) if key not in rules else key, snake_case(parent)
    return rules.get(f"{parent}.{key}") or rules.get(key) or (number if key.isdecimal() else None)


def snake_case(key: str) -> str:
    """Return the key as the protocol files spell it."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), key)
