"""The fields of a `config.pbtxt` by message, as of Triton 2.73: `model_config.proto`.

A field with `:` holds a message, one with `:{…}` a map from strings to such messages, or to strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

ROOT = "ModelConfig"
SINGLE = frozenset(
    [
        "name",
        "platform",
        "backend",
        "runtime",
        "version_policy",
        "max_batch_size",
        "optimization",
        "dynamic_batching",
        "sequence_batching",
        "ensemble_scheduling",
        "default_model_filename",
        "model_operations",
        "model_transaction_policy",
        "model_repository_agents",
        "response_cache",
        "model_metrics",
    ]
)
"""Fields of a configuration that are no lists."""
_MESSAGES = {
    "ModelConfig": (
        "name platform backend runtime version_policy:ModelVersionPolicy max_batch_size input:ModelInput "
        "output:ModelOutput batch_input:BatchInput batch_output:BatchOutput optimization:ModelOptimizationPolicy "
        "dynamic_batching:ModelDynamicBatching sequence_batching:ModelSequenceBatching "
        "ensemble_scheduling:ModelEnsembling instance_group:ModelInstanceGroup default_model_filename "
        "cc_model_filenames:{} metric_tags:{} parameters:{ModelParameter} model_warmup:ModelWarmup "
        "model_operations:ModelOperations model_transaction_policy:ModelTransactionPolicy "
        "model_repository_agents:ModelRepositoryAgents response_cache:ModelResponseCache model_metrics:ModelMetrics"
    ),
    "ModelVersionPolicy": (
        "latest:ModelVersionPolicy.Latest all:ModelVersionPolicy.All specific:ModelVersionPolicy.Specific"
    ),
    "ModelVersionPolicy.Latest": "num_versions",
    "ModelVersionPolicy.All": "",
    "ModelVersionPolicy.Specific": "versions",
    "ModelInput": (
        "name data_type format dims reshape:ModelTensorReshape is_shape_tensor allow_ragged_batch optional "
        "is_non_linear_format_io"
    ),
    "ModelTensorReshape": "shape",
    "ModelOutput": (
        "name data_type dims reshape:ModelTensorReshape label_filename is_shape_tensor is_non_linear_format_io"
    ),
    "BatchInput": "kind target_name data_type source_input",
    "BatchOutput": "target_name kind source_input",
    "ModelOptimizationPolicy": (
        "graph:ModelOptimizationPolicy.Graph priority cuda:ModelOptimizationPolicy.Cuda "
        "execution_accelerators:ModelOptimizationPolicy.ExecutionAccelerators "
        "input_pinned_memory:ModelOptimizationPolicy.PinnedMemoryBuffer "
        "output_pinned_memory:ModelOptimizationPolicy.PinnedMemoryBuffer gather_kernel_buffer_threshold "
        "eager_batching"
    ),
    "ModelOptimizationPolicy.Graph": "level",
    "ModelOptimizationPolicy.Cuda": (
        "graphs busy_wait_events graph_spec:ModelOptimizationPolicy.Cuda.GraphSpec output_copy_stream"
    ),
    "ModelOptimizationPolicy.Cuda.GraphSpec": (
        "batch_size input:{ModelOptimizationPolicy.Cuda.GraphSpec.Shape} "
        "graph_lower_bound:ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound"
    ),
    "ModelOptimizationPolicy.Cuda.GraphSpec.Shape": "dim",
    "ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound": (
        "batch_size input:{ModelOptimizationPolicy.Cuda.GraphSpec.Shape}"
    ),
    "ModelOptimizationPolicy.ExecutionAccelerators": (
        "gpu_execution_accelerator:ModelOptimizationPolicy.ExecutionAccelerators.Accelerator "
        "cpu_execution_accelerator:ModelOptimizationPolicy.ExecutionAccelerators.Accelerator"
    ),
    "ModelOptimizationPolicy.ExecutionAccelerators.Accelerator": "name parameters:{}",
    "ModelOptimizationPolicy.PinnedMemoryBuffer": "enable",
    "ModelDynamicBatching": (
        "preferred_batch_size max_queue_delay_microseconds preserve_ordering priority_levels default_priority_level "
        "default_queue_policy:ModelQueuePolicy priority_queue_policy:{ModelQueuePolicy}"
    ),
    "ModelQueuePolicy": "timeout_action default_timeout_microseconds allow_timeout_override max_queue_size",
    "ModelSequenceBatching": (
        "direct:ModelSequenceBatching.StrategyDirect oldest:ModelSequenceBatching.StrategyOldest "
        "max_sequence_idle_microseconds control_input:ModelSequenceBatching.ControlInput "
        "state:ModelSequenceBatching.State iterative_sequence"
    ),
    "ModelSequenceBatching.StrategyDirect": "max_queue_delay_microseconds minimum_slot_utilization",
    "ModelSequenceBatching.StrategyOldest": (
        "max_candidate_sequences preferred_batch_size max_queue_delay_microseconds preserve_ordering"
    ),
    "ModelSequenceBatching.ControlInput": "name control:ModelSequenceBatching.Control",
    "ModelSequenceBatching.Control": "kind int32_false_true fp32_false_true bool_false_true data_type",
    "ModelSequenceBatching.State": (
        "input_name output_name data_type dims initial_state:ModelSequenceBatching.InitialState "
        "use_same_buffer_for_input_output use_growable_memory"
    ),
    "ModelSequenceBatching.InitialState": "data_type dims zero_data data_file name",
    "ModelEnsembling": "step:ModelEnsembling.Step max_inflight_requests",
    "ModelEnsembling.Step": "model_name model_version input_map:{} output_map:{} model_namespace",
    "ModelInstanceGroup": (
        "name kind count rate_limiter:ModelRateLimiter gpus secondary_devices:ModelInstanceGroup.SecondaryDevice "
        "profile passive host_policy"
    ),
    "ModelRateLimiter": "resources:ModelRateLimiter.Resource priority",
    "ModelRateLimiter.Resource": "name global count",
    "ModelInstanceGroup.SecondaryDevice": "kind device_id",
    "ModelParameter": "string_value",
    "ModelWarmup": "name batch_size inputs:{ModelWarmup.Input} count",
    "ModelWarmup.Input": "data_type dims zero_data random_data input_data_file",
    "ModelOperations": "op_library_filename",
    "ModelTransactionPolicy": "decoupled",
    "ModelRepositoryAgents": "agents:ModelRepositoryAgents.Agent",
    "ModelRepositoryAgents.Agent": "name parameters:{}",
    "ModelResponseCache": "enable",
    "ModelMetrics": "metric_control:ModelMetrics.MetricControl",
    "ModelMetrics.MetricControl": (
        "metric_identifier:ModelMetrics.MetricControl.MetricIdentifier "
        "histogram_options:ModelMetrics.MetricControl.HistogramOptions"
    ),
    "ModelMetrics.MetricControl.MetricIdentifier": "family",
    "ModelMetrics.MetricControl.HistogramOptions": "buckets",
}
MAP = "{"


@cache
def fields_of(message: str) -> Mapping[str, str]:
    """Return the fields of a message and what each holds: a message, `{` and a map's values, or ""."""
    parts = (part.partition(":") for part in _MESSAGES.get(message, "").split())
    return {name: held.rstrip("}") for name, _, held in parts}


def known(message: str) -> bool:
    """Return whether the fields of this message are known."""
    return message in _MESSAGES
