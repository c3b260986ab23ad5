"""Configurations of every shape that a change has to fit, and the changes that no check makes by itself."""

from __future__ import annotations

from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue, WarmupChange

_TENSORS = """\
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""
_BATCHING = """\
dynamic_batching {
  max_queue_delay_microseconds: 60000
  default_queue_policy { max_queue_size: 4 }
}
"""


def _file(*parts: str, most: int = 16, group: str = "instance_group [ { kind: KIND_GPU count: 1 } ]") -> str:
    head = f'name: "model"\nbackend: "python"\nmax_batch_size: {most}  # fits the card\n'
    return "".join((head, _TENSORS, group and f"{group}\n", *parts))


CASE_PLAIN = _file()
CASE_BATCHING = _file(_BATCHING)
_SEQUENCES = "sequence_batching { max_sequence_idle_microseconds: 5000000 }\n"
_DECOUPLED = "model_transaction_policy { decoupled: true }\n"
_TWO_GROUPS = """\
instance_group [
  { count: 1 kind: KIND_CPU },
  { count: 2 kind: KIND_CPU }
]"""
_EVERY_INPUT = """\
name: "model"
backend: "python"
max_batch_size: 8
input [
  { name: "text" data_type: TYPE_STRING dims: [ -1 ] },
  { name: "flag" data_type: TYPE_BOOL dims: [ 1 ] reshape { shape: [ ] } },
  { name: "more" data_type: TYPE_INT64 dims: [ 2, -1 ] optional: true },
  { name: "half" data_type: TYPE_FP16 dims: [ 3, 4 ] allow_ragged_batch: true }
]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""
_WARMED = (
    'model_warmup [ { name: "one" batch_size: 1 inputs { key: "IN" value '
    "{ data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } } ]\n"
)
_PARAMETERS = """\
parameters { key: "gpt_model_type" value { string_value: "V1" } }
parameters { key: "decoupled_mode" value { string_value: "false" } }
"""
_POLICY = "dynamic_batching.default_queue_policy"


def _to(*settings: tuple[str, SettingValue]) -> ConfigChange:
    return ConfigChange(model="model", settings=tuple(Setting(path=path, value=value) for path, value in settings))


_MORE = _to(("instance_group.count", 2))
_WARM = _to(("model_warmup", WarmupChange(batch_sizes=(1, 8))))
# What a batcher can be told, all of it in one change; and what has no place in any scheduler.
_BATCHER = _to(
    ("max_batch_size", 32),
    ("dynamic_batching.max_queue_delay_microseconds", 2000),
    ("dynamic_batching.preferred_batch_size", (4, 8)),
    ("dynamic_batching.preserve_ordering", True),
    (f"{_POLICY}.max_queue_size", 64),
    (f"{_POLICY}.default_timeout_microseconds", 500_000),
    (f"{_POLICY}.allow_timeout_override", True),
    (f"{_POLICY}.timeout_action", "REJECT"),
)
_OTHERS = _to(
    ("version_policy", "latest:2"),
    ("response_cache.enable", True),
    ("parameters.gpt_model_type", "inflight_fused_batching"),
    ("parameters.kv_cache_free_gpu_mem_fraction", "0.9"),
    ("parameters.decoupled_mode", None),
)
_PREFERRED = _file("dynamic_batching { preferred_batch_size: [ 4, 16 ] }\n")
_LISTED = _file(group="instance_group [ { kind: KIND_GPU count: 1 gpus: [ 0, 1 ] } ]")
_LIMITED = _file(
    group="instance_group [ { count: 4 kind: KIND_CPU "
    'rate_limiter { resources [ { name: "R1" count: 1 }, { name: "R2" global: true count: 2 } ] priority: 2 } } ]'
)
_WAITING = _file(group="instance_group [ { kind: KIND_CPU }, { kind: KIND_CPU passive: true } ]")

IN_FILES: tuple[tuple[str, str, ConfigChange], ...] = (
    ("instances of a sequence model", _file(_SEQUENCES), _MORE),
    ("instances of a decoupled model", _file(_DECOUPLED), _MORE),
    ("instances where no group is written", _file(group=""), _MORE),
    ("instances of several groups", _file(group=_TWO_GROUPS), _MORE),
    ("instances on two listed GPUs", _LISTED, _MORE),
    ("instances beside a waiting group", _WAITING, _MORE),
    ("no rate limiter", _LIMITED, _to(("instance_group.rate_limiter", None))),
    ("batching of a decoupled model", _file(_DECOUPLED), _to(("dynamic_batching", True))),
    ("all that a batcher can be told", _file("dynamic_batching { }\n"), _BATCHER),
    ("late requests last", CASE_BATCHING, _to((f"{_POLICY}.timeout_action", "DELAY"))),
    ("smaller batches than are preferred", _PREFERRED, _to(("max_batch_size", 8))),
    ("a larger KV cache", CASE_PLAIN, _to(("parameters.max_tokens_in_paged_kv_cache", "20480"))),
    ("warm-up of every kind of input", _EVERY_INPUT, _WARM),
    ("warm-up beside a sample that is there", _file(_WARMED), _WARM),
    ("warm-up without a batch dimension", _file(most=0), _to(("model_warmup", WarmupChange(batch_sizes=(1,))))),
    ("warm-up of a decoupled model", _file(_DECOUPLED), _WARM),
    ("warm-up of a sequence model", _file(_SEQUENCES), _WARM),
    ("all that no scheduler is told", _file(_PARAMETERS), _OTHERS),
    ("all versions", _file(), _to(("version_policy", "all"))),
)
IN_EFFECT: tuple[tuple[str, str, ConfigChange], ...] = (
    ("instances on two listed GPUs", _LISTED, _MORE),
    ("no rate limiter", _LIMITED, _to(("instance_group.rate_limiter", None))),
    ("one more beside a rate limiter", _LIMITED, _MORE),
    ("no batching", CASE_BATCHING, _to(("dynamic_batching", None))),
    ("all that a batcher can be told", CASE_BATCHING, _BATCHER),
    ("warm-up of every kind of input", _EVERY_INPUT, _WARM),
    ("warm-up beside a sample that is there", _file(_WARMED), _WARM),
    ("all that no scheduler is told", _file(_PARAMETERS), _OTHERS),
)
