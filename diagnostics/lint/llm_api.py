"""The arguments of TensorRT-LLM's LLM API, which stand in the `model.yaml` of a version beside its `model.py`.

Source: TensorRT-LLM, `triton_backend/all_models/llmapi/tensorrt_llm/1`; `tensorrt_llm/llmapi/llm_args.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diagnostics.errors import CollectError
from diagnostics.lint.documents import yaml_of
from diagnostics.lint.model_folder import ModelFolder, remembered
from diagnostics.lint.problem import SourceLocation
from diagnostics.lint.text_file import TextFile, joined, read_text

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
