"""Every metric, label and engine-gauge name this project reads, spelled once."""

from __future__ import annotations

MODEL = "model"
VERSION = "version"
REASON = "reason"
QUANTILE = "quantile"

REQUEST_SUCCESS = "nv_inference_request_success"
REQUEST_FAILURE = "nv_inference_request_failure"
INFERENCE_COUNT = "nv_inference_count"
EXECUTION_COUNT = "nv_inference_exec_count"
REQUEST_DURATION = "nv_inference_request_duration_us"
QUEUE_DURATION = "nv_inference_queue_duration_us"
INPUT_DURATION = "nv_inference_compute_input_duration_us"
INFER_DURATION = "nv_inference_compute_infer_duration_us"
OUTPUT_DURATION = "nv_inference_compute_output_duration_us"
PENDING_REQUESTS = "nv_inference_pending_request_count"
FIRST_RESPONSE = "nv_inference_first_response_histogram_ms"
REQUEST_SUMMARY = "nv_inference_request_summary_us"
QUEUE_SUMMARY = "nv_inference_queue_summary_us"
INFER_SUMMARY = "nv_inference_compute_infer_summary_us"
LOAD_DURATION = "nv_model_load_duration_secs"
CACHE_HITS = "nv_cache_num_hits_per_model"
CACHE_MISSES = "nv_cache_num_misses_per_model"
CACHE_MISS_DURATION = "nv_cache_miss_duration_per_model"
PINNED_MEMORY_USED = "nv_pinned_memory_pool_used_bytes"
PINNED_MEMORY_TOTAL = "nv_pinned_memory_pool_total_bytes"

CPU_UTILIZATION = "nv_cpu_utilization"
GPU_UUID = "gpu_uuid"
GPU_UTILIZATION = "nv_gpu_utilization"
GPU_POWER = "nv_gpu_power_usage"
GPU_POWER_LIMIT = "nv_gpu_power_limit"
GPU_MEMORY_USED = "nv_gpu_memory_used_bytes"
GPU_MEMORY_TOTAL = "nv_gpu_memory_total_bytes"
GPU_ENERGY = "nv_energy_consumption"
CPU_MEMORY_USED = "nv_cpu_memory_used_bytes"
CPU_MEMORY_TOTAL = "nv_cpu_memory_total_bytes"

# node_exporter's families of a machine's processors and memory, and of what waits for processors and disks (PSI).
NODE_CPU = "node_cpu_seconds_total"
NODE_CPU_PRESSURE = "node_pressure_cpu_waiting_seconds_total"
NODE_IO_PRESSURE = "node_pressure_io_waiting_seconds_total"
NODE_MEMORY_TOTAL = "node_memory_MemTotal_bytes"
NODE_MEMORY_AVAILABLE = "node_memory_MemAvailable_bytes"

# dcgm-exporter's families, the spelling of today's releases first.
DCGM_PREFIX = "DCGM_FI_"
DCGM_PROFILING_PREFIX = "DCGM_FI_PROF_"
DCGM_MIG_INSTANCE = "GPU_I_ID"
DCGM_UTILIZATION = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO")
DCGM_MEMORY_USED = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED_BYTES")
DCGM_MEMORY_FREE = ("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_FREE_BYTES")
DCGM_MEMORY_RESERVED = ("DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_FB_RESERVED_BYTES")
DCGM_MEMORY_TOTAL = ("DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_CAPACITY_BYTES")
DCGM_POWER = ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS")
DCGM_POWER_LIMIT = (
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS",
    "DCGM_FI_DEV_POWER_MGMT_LIMIT",
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS",
)
DCGM_POWER_DEFAULT_LIMIT = ("DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", "DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS")
DCGM_TEMPERATURE = ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS")
DCGM_SM_CLOCK = ("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_SM_CLOCK_HERTZ")
DCGM_MAX_SM_CLOCK = ("DCGM_FI_DEV_MAX_SM_CLOCK",)
DCGM_CLOCK_REASONS = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
DCGM_ENERGY = ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",)
DCGM_GRAPHICS = ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO")
DCGM_SM = ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO")
DCGM_OCCUPANCY = ("DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO")
DCGM_TENSOR = ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO")
DCGM_DRAM = ("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO")
DCGM_ECC = ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",)
DCGM_REMAP_PENDING = ("DCGM_FI_DEV_ROW_REMAP_PENDING",)
DCGM_REMAP_FAILED = ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED")
DCGM_XID = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR")

# The TensorRT-LLM backend's families, each with the label that says which value a series is.
ENGINE_REQUESTS = "nv_trt_llm_request_metrics"
ENGINE_REQUEST_TYPE = "request_type"
ENGINE_KV = "nv_trt_llm_kv_cache_block_metrics"
ENGINE_KV_TYPE = "kv_cache_block_type"
ENGINE_INFLIGHT = "nv_trt_llm_inflight_batcher_metrics"
ENGINE_INFLIGHT_TYPE = "inflight_batcher_specific_metric"
ENGINE_V1 = "nv_trt_llm_v1_metrics"
ENGINE_V1_TYPE = "v1_specific_metric"
ENGINE_MEMORY = "nv_trt_llm_runtime_memory_metrics"
ENGINE_MEMORY_TYPE = "memory_type"
ENGINE_GENERAL = "nv_trt_llm_general_metrics"
ENGINE_GENERAL_TYPE = "general_type"
# The vLLM backend's families that name its model, in Triton's page; the scheduler's gauges came last.
VLLM_RUNNING = "vllm:num_requests_running"
VLLM_WAITING = "vllm:num_requests_waiting"
VLLM_LATENCY = "vllm:e2e_request_latency_seconds"
VLLM_FAMILIES = (VLLM_RUNNING, "vllm:prompt_tokens_total", "vllm:generation_tokens_total")
# How servers of engines other than Triton name their model, and the time of a whole request.
SERVE_MODEL = "model_name"
SERVE_LATENCY = "e2e_request_latency_seconds"
# The most requests that NIM runs at once; no other server exports it.
NIM_SLOTS = "num_request_max"
# Further families without a prefix that are NIM's alone: trtllm-serve calls its own otherwise.
NIM_FAMILIES = (NIM_SLOTS, "gpu_cache_usage_perc", "request_failure_total")

# Reasons of failures: refused at a queue, and given up by its caller.
REJECTED = "REJECTED"
CANCELED = "CANCELED"

# Backends whose rows are engines: they batch inside, so batch size 1 and an empty queue are normal there.
ENGINE_BACKENDS = frozenset({"tensorrtllm", "vllm", "fastertransformer"})
# The one among them whose compute_infer holds the engine's whole time (reference: TensorRT-LLM C++ backend).
ENGINE_BACKENDS_WITH_TIME = frozenset({"tensorrtllm", "fastertransformer"})
PYTHON_BACKEND = "python"
TENSORRT_BACKEND = "tensorrt"
# Inputs by which a Python model is known as an engine: TensorRT-LLM's LLM API (a prefix), vLLM's, the Python runtime.
TEXT_INPUT = "text_input"
LLM_API_SAMPLING = "sampling_param_"
VLLM_SAMPLING = "sampling_parameters"
RUNTIME_INPUTS = frozenset({"input_ids", "request_output_len"})
ENGINE_PATH = "gpt_model_path"
# How the parameters end by which TensorRT-LLM's BLS models name the models that they call.
CALLED_MODEL = "_model_name"
# The kernel keeps 15 characters of a process's name (triton_python_backend_stub).
PYTHON_STUB = "triton_python_b"
ENSEMBLE_PLATFORM = "ensemble"
KIND_GPU = "KIND_GPU"
KIND_CPU = "KIND_CPU"
KIND_AUTO = "KIND_AUTO"


def as_exported(name: str) -> str:
    """Return the name that Triton gives a series: OpenTelemetry's collector, and OpenMetrics, add `_total` to counters.

    None of Triton's own names ends so.
    """
    return name.removesuffix("_total") if name.startswith("nv_") else name
