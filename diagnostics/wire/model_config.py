"""A model's effective configuration: `GET v2/models/<model>/config`, and gRPC's `ModelConfig` as JSON.

The server completes it (names, kinds, preferred batch sizes): it is what runs, not what the file says.
Field meanings and defaults: Triton, `model_config.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from diagnostics import names
from diagnostics.errors import MalformedBody
from diagnostics.wire.json_body import JsonFields, decode_object, excerpt
from diagnostics.wire.redact import without_secret

MICROSECONDS = 1e-6
INCOMPLETE = "configuration incomplete"
LATEST = -1
"""The version of a step that asks for the latest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimiterResource:
    """What an execution needs `count` of under the rate limiter; of `everywhere`, all devices share what is there."""

    name: str
    count: int = 1
    everywhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroup:
    """Instances of one kind: `count` per listed GPU, or per visible one when KIND_GPU lists none.

    `resources` is what each execution takes from the rate limiter, and `limiter_priority` its place in line there. Both
    count only where the server runs it.
    """

    name: str = ""
    kind: str = "KIND_AUTO"
    count: int = 1
    gpus: tuple[int, ...] = ()
    passive: bool = False
    resources: tuple[LimiterResource, ...] = ()
    limiter_priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """The default queue policy. Zero means: no timeout, no limit; `timeout_action` is REJECT or DELAY."""

    timeout_action: str = "REJECT"
    default_timeout_seconds: float = 0.0
    allow_timeout_override: bool = False
    max_queue_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBatching:
    """Settings of the dynamic batcher; a delay of 0 sends a batch as soon as an instance is free."""

    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_delay_seconds: float = 0.0
    preserve_ordering: bool = False
    priority_levels: int = 0
    queue_policy: QueuePolicy = QueuePolicy()

    @property
    def may_refuse(self) -> bool:
        """Whether a request may be refused at the queue, or for having waited there; levels have policies of their own.

        Those of levels are not read: any may refuse.
        """
        policy = self.queue_policy
        timed = policy.default_timeout_seconds > 0 or policy.allow_timeout_override
        return timed or policy.max_queue_size > 0 or self.priority_levels > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleStep:
    """One step. The maps go from the member's tensor to the ensemble's.

    Version -1 is the latest. A step that names none has 0, protobuf's default, which no model has: the ensemble does
    not load ("required version 0 is not loaded", seen on Triton 2.51).
    """

    model: str
    version: int = LATEST
    input_map: Mapping[str, str] = field(default_factory=dict)
    output_map: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmup:
    """A warm-up sample, run `count` times at load; `batch_size` 0 or 1 is a single element."""

    name: str = ""
    batch_size: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A tensor that a request brings, without its batch dimension; a dimension of -1 may have any size."""

    name: str
    data_type: str
    dims: tuple[int, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class ModelConfig:
    """The effective configuration of one model.

    Attributes:
        name: the model.
        platform: `ensemble`, or a backend's older name; often empty.
        backend: `python`, `tensorrtllm`, …; empty for an ensemble.
        max_batch_size: 0 when the model does not batch.
        instance_groups: none for an ensemble.
        dynamic_batching: None when the dynamic batcher is off.
        sequence_batching: whether the sequence batcher schedules it.
        sequences_in_order: whether that keeps responses in the order of their requests (its strategy `oldest`).
        ensemble_steps: an ensemble's steps in the file's order; else none.
        warmups: samples run before the model counts as loaded.
        decoupled: whether a request may have any number of responses.
        parameters: the backend's own settings, as strings.
        version_policy: `latest:1`, `all` or `specific:1,3`; `latest:0` serves none.
        response_cache: whether the response cache may answer.
        inputs: what a request brings; none where the configuration does not say.

    """

    name: str
    platform: str = ""
    backend: str = ""
    max_batch_size: int = 0
    instance_groups: tuple[InstanceGroup, ...] = ()
    dynamic_batching: DynamicBatching | None = None
    sequence_batching: bool = False
    sequences_in_order: bool = False
    ensemble_steps: tuple[EnsembleStep, ...] = ()
    warmups: tuple[Warmup, ...] = ()
    decoupled: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)
    version_policy: str = "latest:1"
    response_cache: bool = False
    inputs: tuple[Input, ...] = ()


def parse_model_config(body: bytes) -> ModelConfig:
    """Return the configuration in `body`; absent fields have the defaults of the protocol.

    Raises:
        MalformedBody: it is no model configuration, which has at least a name, or an ensemble's is incomplete: what it
            calls would be taken for models that nobody calls.

    """
    config = model_config_of(_named_fields(body))
    if why := incomplete(config):
        raise MalformedBody(why)
    return config


def configured_model(body: bytes) -> str:
    """Return the model whose configuration `body` is, which may be incomplete.

    Raises:
        MalformedBody: it is no model configuration, which has at least a name.

    """
    return _named_fields(body).text("name")


def _named_fields(body: bytes) -> JsonFields:
    answer = decode_object(body, "the model configuration")
    fields = answer.child("config") if answer.has("config") and not answer.has("name") else answer
    if not fields.text("name"):
        raise MalformedBody(f"the model configuration has no name: {excerpt(body)}")
    return fields


def incomplete(config: ModelConfig) -> str:
    """Return what an ensemble's configuration lacks that Triton loads none without; empty where nothing is missing.

    Source: Triton core, `ValidateEnsembleSchedulingConfig`: steps, each with a model, an input map and an output map.
    """
    steps = config.ensemble_steps
    if config.platform == names.ENSEMBLE_PLATFORM and not steps:
        return f"{INCOMPLETE}: the ensemble has no steps"
    broken = next((at for at, one in enumerate(steps) if not (one.model and one.input_map and one.output_map)), None)
    return "" if broken is None else f"{INCOMPLETE}: step {broken + 1} of the ensemble has no model, inputs or outputs"


def model_config_of(fields: JsonFields) -> ModelConfig:
    """Return the configuration in these fields of a `ModelConfig`.

    Raises:
        MalformedBody: a field is of another type.

    """
    return ModelConfig(
        name=fields.text("name"),
        platform=fields.text("platform"),
        backend=fields.text("backend"),
        max_batch_size=_int32(fields, "max_batch_size"),
        instance_groups=tuple(_group(group) for group in fields.children("instance_group")),
        dynamic_batching=_batching(fields.child("dynamic_batching")) if fields.has("dynamic_batching") else None,
        sequence_batching=fields.has("sequence_batching"),
        sequences_in_order=fields.child("sequence_batching").child("oldest").flag("preserve_ordering"),
        ensemble_steps=tuple(_step(step) for step in fields.child("ensemble_scheduling").children("step")),
        warmups=tuple(_warmup(warmup) for warmup in fields.children("model_warmup")),
        decoupled=fields.child("model_transaction_policy").flag("decoupled"),
        parameters=_parameters(fields.child("parameters")),
        version_policy=_version_policy(fields.child("version_policy")),
        response_cache=fields.child("response_cache").flag("enable"),
        inputs=tuple(_input(one) for one in fields.children("input")),
    )


def _group(fields: JsonFields) -> InstanceGroup:
    return InstanceGroup(
        name=fields.text("name"),
        kind=fields.text("kind", "KIND_AUTO"),
        count=max(1, _int32(fields, "count")),
        gpus=fields.integers("gpus"),
        passive=fields.flag("passive"),
        resources=tuple(_resource(one) for one in fields.child("rate_limiter").children("resources")),
        limiter_priority=fields.child("rate_limiter").integer("priority"),
    )


def _resource(fields: JsonFields) -> LimiterResource:
    return LimiterResource(
        name=fields.text("name"), count=max(1, _int32(fields, "count")), everywhere=fields.flag("global")
    )


def _batching(fields: JsonFields) -> DynamicBatching:
    policy = fields.child("default_queue_policy")
    return DynamicBatching(
        preferred_batch_sizes=fields.integers("preferred_batch_size"),
        max_queue_delay_seconds=_seconds(fields, "max_queue_delay_microseconds"),
        preserve_ordering=fields.flag("preserve_ordering"),
        priority_levels=fields.integer("priority_levels"),
        queue_policy=QueuePolicy(
            timeout_action=policy.text("timeout_action", "REJECT"),
            default_timeout_seconds=_seconds(policy, "default_timeout_microseconds"),
            allow_timeout_override=policy.flag("allow_timeout_override"),
            max_queue_size=policy.integer("max_queue_size"),
        ),
    )


def _int32(fields: JsonFields, key: str) -> int:
    value = fields.integer(key)
    if not -(2**31) <= value < 2**31:
        raise MalformedBody(f"the model configuration: {key!r} should be a 32-bit integer but is {value}")
    return value


def _seconds(fields: JsonFields, key: str) -> float:
    return min(max(fields.integer(key), 0), 2**64) * MICROSECONDS


def _step(fields: JsonFields) -> EnsembleStep:
    return EnsembleStep(
        model=fields.text("model_name"),
        version=fields.integer("model_version"),
        input_map=fields.text_map("input_map"),
        output_map=fields.text_map("output_map"),
    )


def _warmup(fields: JsonFields) -> Warmup:
    return Warmup(
        name=fields.text("name"),
        batch_size=fields.integer("batch_size"),
        count=max(1, fields.integer("count")),
    )


def _input(fields: JsonFields) -> Input:
    return Input(
        name=fields.text("name"),
        data_type=fields.text("data_type"),
        dims=fields.integers("dims"),
        optional=fields.flag("optional"),
    )


def _parameters(fields: JsonFields) -> Mapping[str, str]:
    return {key: without_secret(key, fields.child(key).text("string_value")) for key, _ in fields.items()}


def _version_policy(fields: JsonFields) -> str:
    if fields.has("all"):
        return "all"
    if fields.has("specific"):
        versions = fields.child("specific").integers("versions")
        return "specific:" + ",".join(map(str, versions))
    if fields.has("latest"):
        return f"latest:{fields.child('latest').integer('num_versions')}"
    return "latest:1"
