"""What `diag serve` exports so that a window can be rebuilt from Prometheus: names, labels, and how they are read back.

Triton's own page has neither batch distributions nor configurations. Labels hold words, numbers and lists with commas;
of backend parameters only those that checks read are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from diagnostics import names
from diagnostics.wire.host import HostProcess, HostSample
from diagnostics.wire.json_body import decimal, number
from diagnostics.wire.model_config import (
    INCOMPLETE,
    DynamicBatching,
    EnsembleStep,
    Input,
    InstanceGroup,
    ModelConfig,
    QueuePolicy,
    Warmup,
    incomplete,
)

Labels = Mapping[str, str]
STATISTICS_READ = "diag_statistics_read_timestamp_seconds"
BATCH_EXECUTIONS = "diag_model_batch_executions_total"
BATCH_SECONDS = "diag_model_batch_seconds_total"
CONFIG_INFO = "diag_model_config_info"
GROUP_INSTANCES = "diag_model_instance_group_instances"
PARAMETER_INFO = "diag_model_parameter_info"
STEP_INFO = "diag_ensemble_step_info"
BATCH_LABELS = ("server", "model", "version", "batch_size")
GROUP_LABELS = ("server", "model", "group", "kind", "gpus")
PARAMETER_LABELS = ("server", "model", "parameter", "value")
STEP_LABELS = ("server", "ensemble", "step", "model", "version", "inputs", "outputs")
CONFIG_LABELS = (
    "server",
    "model",
    "platform",
    "backend",
    "max_batch_size",
    "dynamic_batching",
    "max_queue_delay_seconds",
    "preferred_batch_sizes",
    "preserve_ordering",
    "max_queue_size",
    "queue_timeout_seconds",
    "queue_timeout_action",
    "priority_levels",
    "sequence_batching",
    "decoupled",
    "response_cache",
    "version_policy",
    "warmups",
    "inputs",
)
FAMILIES = (
    STATISTICS_READ,
    BATCH_EXECUTIONS,
    BATCH_SECONDS,
    CONFIG_INFO,
    GROUP_INSTANCES,
    PARAMETER_INFO,
    STEP_INFO,
)
LABELS = frozenset({"__name__", *BATCH_LABELS, *GROUP_LABELS, *PARAMETER_LABELS, *STEP_LABELS, *CONFIG_LABELS})
_PARAMETERS = frozenset(
    {
        "gpt_model_type",
        "batch_scheduler_policy",
        "enable_chunked_context",
        "kv_cache_free_gpu_mem_fraction",
        "max_tokens_in_paged_kv_cache",
        names.ENGINE_PATH,
    }
)
# Names of inputs by which a model is known as an engine; what else a request brings is not exported.
_TELLING_INPUTS = frozenset({names.TEXT_INPUT, names.VLLM_SAMPLING, *names.RUNTIME_INPUTS})
_LONGEST_VALUE = 200


def config_labels(server: str, config: ModelConfig) -> tuple[str, ...]:
    """Return the values of `CONFIG_LABELS`; what does not apply is empty."""
    batching = config.dynamic_batching
    policy = batching.queue_policy if batching else QueuePolicy()
    values = {
        "server": server,
        "model": config.name,
        "platform": config.platform,
        "backend": config.backend,
        "max_batch_size": str(config.max_batch_size),
        "dynamic_batching": _flag(batching is not None),
        "max_queue_delay_seconds": f"{batching.max_queue_delay_seconds:g}" if batching else "",
        "preferred_batch_sizes": _joined(batching.preferred_batch_sizes) if batching else "",
        "preserve_ordering": _flag(batching.preserve_ordering) if batching else "",
        "max_queue_size": str(policy.max_queue_size) if batching else "",
        "queue_timeout_seconds": f"{policy.default_timeout_seconds:g}" if batching else "",
        "queue_timeout_action": policy.timeout_action if batching else "",
        "priority_levels": str(batching.priority_levels) if batching else "",
        "sequence_batching": _flag(config.sequence_batching),
        "decoupled": _flag(config.decoupled),
        "response_cache": _flag(config.response_cache),
        "version_policy": config.version_policy,
        "warmups": str(len(config.warmups)),
        "inputs": _joined(sorted(_informative(config))),
    }
    return tuple(values[name] for name in CONFIG_LABELS)


def group_labels(server: str, config: ModelConfig) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the values of `GROUP_LABELS` and the count of each group that executes."""
    for position, group in enumerate(config.instance_groups):
        if not group.passive:
            yield (server, config.name, str(position), group.kind, _joined(group.gpus)), group.count


def parameter_labels(server: str, config: ModelConfig) -> Iterator[tuple[str, ...]]:
    """Yield the values of `PARAMETER_LABELS` of each parameter that checks read. Of paths there is no value."""
    for key, value in sorted(config.parameters.items()):
        if key in _PARAMETERS or key.endswith(names.CALLED_MODEL):
            yield server, config.name, key, "" if key == names.ENGINE_PATH else value[:_LONGEST_VALUE]


def step_labels(server: str, config: ModelConfig) -> Iterator[tuple[str, ...]]:
    """Yield the values of `STEP_LABELS` of each step; tensors are the ensemble's."""
    for position, step in enumerate(config.ensemble_steps):
        tensors = (_joined(sorted(set(found.values()))) for found in (step.input_map, step.output_map))
        yield server, config.name, str(position), step.model, str(step.version), *tensors


def config_of(
    info: Labels,
    groups: Sequence[tuple[Labels, float]],
    parameters: Sequence[Labels],
    steps: Sequence[Labels],
) -> ModelConfig:
    """Return the configuration in these series; labels that are absent have the protocol's defaults.

    Args:
        info: labels of the model's `CONFIG_INFO`.
        groups: labels of its `GROUP_INSTANCES` and the counts.
        parameters: labels of its `PARAMETER_INFO`.
        steps: labels of its `STEP_INFO`.

    """
    return ModelConfig(
        name=info.get("model", ""),
        platform=info.get("platform", ""),
        backend=info.get("backend", ""),
        max_batch_size=_integer(info.get("max_batch_size")),
        instance_groups=tuple(_group(labels, count) for labels, count in sorted(groups, key=_position)),
        dynamic_batching=_batching(info) if info.get("dynamic_batching") == "true" else None,
        sequence_batching=info.get("sequence_batching") == "true",
        ensemble_steps=tuple(_step(labels) for labels in sorted(steps, key=lambda one: _integer(one.get("step")))),
        warmups=(Warmup(),) * min(_integer(info.get("warmups")), 1000),
        decoupled=info.get("decoupled") == "true",
        parameters={one.get("parameter", ""): one.get("value", "") for one in parameters},
        version_policy=info.get("version_policy") or "latest:1",
        response_cache=info.get("response_cache") == "true",
        inputs=tuple(Input(name=name, data_type="") for name in _listed(info.get("inputs"))),
    )


def why_incomplete(config: ModelConfig, steps: Sequence[Labels]) -> str:
    """Return what these series of an ensemble lack; empty where nothing is missing. Steps are numbered from 0."""
    if sorted(_integer(one.get("step")) for one in steps) != list(range(len(steps))):
        return f"{INCOMPLETE}: a step of the ensemble is missing"
    return incomplete(config)


def _position(group: tuple[Labels, float]) -> int:
    return _integer(group[0].get("group"))


def _group(labels: Labels, count: float) -> InstanceGroup:
    gpus = tuple(found for gpu in _listed(labels.get("gpus")) if (found := decimal(gpu)) is not None)
    whole = int(count) if isfinite(count) else 1
    return InstanceGroup(kind=labels.get("kind") or names.KIND_AUTO, count=max(whole, 1), gpus=gpus)


def _batching(info: Labels) -> DynamicBatching:
    sizes = (_integer(size) for size in _listed(info.get("preferred_batch_sizes")))
    return DynamicBatching(
        preferred_batch_sizes=tuple(sizes),
        max_queue_delay_seconds=number(info.get("max_queue_delay_seconds")) or 0.0,
        preserve_ordering=info.get("preserve_ordering") == "true",
        priority_levels=_integer(info.get("priority_levels")),
        queue_policy=QueuePolicy(
            timeout_action=info.get("queue_timeout_action") or "REJECT",
            default_timeout_seconds=number(info.get("queue_timeout_seconds")) or 0.0,
            max_queue_size=_integer(info.get("max_queue_size")),
        ),
    )


def _step(labels: Labels) -> EnsembleStep:
    made_of, makes = _listed(labels.get("inputs")), _listed(labels.get("outputs"))
    version = number(labels.get("version"))
    return EnsembleStep(
        model=labels.get("model", ""),
        version=-1 if version is None else int(version),
        input_map={tensor: tensor for tensor in made_of},
        output_map={tensor: tensor for tensor in makes},
    )


def _informative(config: ModelConfig) -> set[str]:
    brought = {one.name for one in config.inputs}
    sampling = next((name for name in sorted(brought) if name.startswith(names.LLM_API_SAMPLING)), None)
    return (brought & _TELLING_INPUTS) | ({sampling} if sampling else set())


def _listed(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]


def _joined(parts: Sequence[object]) -> str:
    return ",".join(map(str, parts))


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _integer(text: str | None) -> int:
    value = number(text) if text else None
    return int(value) if value is not None and 0 <= value < 2**31 else 0


HOST_READ = "diag_host_read_timestamp_seconds"
HOST_LABELS = ("server",)
PROCESS_LABELS = ("server", "pid", "command", "process_model")
# A server has a process, and one for each instance of a Python model.
MOST_PROCESSES = 128
_TOTAL = "_total"


@dataclass(frozen=True, slots=True)
class Exported:
    """A field of a sample as a metric; one whose name ends in `_total` is a counter."""

    name: str
    help: str

    @property
    def counter(self) -> bool:
        return self.name.endswith(_TOTAL)


HOST: Mapping[str, Exported] = {
    "cores": Exported("diag_host_cores", "Processors of the machine."),
    "cpu_busy_seconds": Exported("diag_host_cpu_busy_seconds_total", "Processor time in use, steal included."),
    "cpu_total_seconds": Exported("diag_host_cpu_seconds_total", "Processor time, idle or not."),
    "cpu_steal_seconds": Exported("diag_host_cpu_steal_seconds_total", "Processor time the hypervisor gave away."),
    "pressure_seconds": Exported("diag_host_cpu_pressure_seconds_total", "Time in which some task waited for one."),
    "io_pressure_seconds": Exported("diag_host_io_pressure_seconds_total", "Time in which some task waited for I/O."),
    "memory_total_bytes": Exported("diag_host_memory_total_bytes", "Memory of the machine."),
    "memory_available_bytes": Exported("diag_host_memory_available_bytes", "Memory to be had without swapping."),
    "throttled_seconds": Exported("diag_server_throttled_seconds_total", "Time the server's quota held it back."),
    "throttled_periods": Exported("diag_server_throttled_periods_total", "Scheduling periods in which it did."),
    "periods": Exported("diag_server_scheduling_periods_total", "Scheduling periods of the server's cgroup."),
    "quota_cores": Exported("diag_server_quota_cores", "Processors that the server's quota allows."),
    "cgroup_seconds": Exported("diag_server_cgroup_cpu_seconds_total", "Processor time of the server's cgroup."),
    "server_cores": Exported("diag_server_cores", "Processors that the server may run on."),
    "server_pid": Exported("diag_server_process_id", "The server's process."),
}
PROCESS: Mapping[str, Exported] = {
    "cpu_seconds": Exported("diag_server_process_cpu_seconds_total", "Processor time of a process of the server."),
    "run_delay_seconds": Exported("diag_server_process_wait_seconds_total", "Time it was runnable without running."),
    "rss_bytes": Exported("diag_server_process_resident_bytes", "Its memory."),
}
HOST_FAMILIES = (HOST_READ, *(one.name for one in (*HOST.values(), *PROCESS.values())))
_HOST_FIELDS = {one.name: field for field, one in HOST.items()}
_PROCESS_FIELDS = {one.name: field for field, one in PROCESS.items()}
Reading = tuple[Mapping[str, str], float]


def host_values(sample: HostSample) -> Iterator[tuple[Exported, float]]:
    """Yield the numbers of a sample that the machine gave."""
    for field, family in HOST.items():
        if (value := getattr(sample, field)) is not None:
            yield family, float(value)


def process_values(server: str, sample: HostSample) -> Iterator[tuple[Exported, tuple[str, ...], float]]:
    """Yield what each process of the server used, with the values of `PROCESS_LABELS`."""
    for process in sample.processes[:MOST_PROCESSES]:
        labels = (server, str(process.pid), process.command, process.model or "")
        for field, family in PROCESS.items():
            if (value := getattr(process, field)) is not None:
                yield family, labels, float(value)


def sample_of(at: float, readings: Sequence[Reading]) -> HostSample:
    """Return the sample of Unix second `at` in these series (labels, values); what they lack is None."""
    numbers: dict[str, float] = {}
    processes: dict[tuple[int, str, str], dict[str, float]] = {}
    for labels, value in readings:
        name = labels.get("__name__", "")
        if name in _HOST_FIELDS:
            numbers[_HOST_FIELDS[name]] = value
        elif name in _PROCESS_FIELDS and (pid := decimal(labels.get("pid"))) is not None:
            key = pid, labels.get("command", ""), labels.get("process_model", "")
            processes.setdefault(key, {})[_PROCESS_FIELDS[name]] = value
    return HostSample(
        at=at,
        cores=_host_integer(numbers.get("cores")),
        cpu_busy_seconds=numbers.get("cpu_busy_seconds"),
        cpu_total_seconds=numbers.get("cpu_total_seconds"),
        cpu_steal_seconds=numbers.get("cpu_steal_seconds"),
        pressure_seconds=numbers.get("pressure_seconds"),
        io_pressure_seconds=numbers.get("io_pressure_seconds"),
        throttled_seconds=numbers.get("throttled_seconds"),
        throttled_periods=numbers.get("throttled_periods"),
        periods=numbers.get("periods"),
        quota_cores=numbers.get("quota_cores"),
        cgroup_seconds=numbers.get("cgroup_seconds"),
        server_cores=_host_integer(numbers.get("server_cores")),
        memory_total_bytes=numbers.get("memory_total_bytes"),
        memory_available_bytes=numbers.get("memory_available_bytes"),
        server_pid=_host_integer(numbers.get("server_pid")),
        processes=tuple(_process(*key, spent) for key, spent in sorted(processes.items())),
    )


def _process(pid: int, command: str, model: str, spent: Mapping[str, float]) -> HostProcess:
    return HostProcess(
        pid=pid,
        command=command,
        model=model or None,
        cpu_seconds=spent.get("cpu_seconds"),
        run_delay_seconds=spent.get("run_delay_seconds"),
        rss_bytes=spent.get("rss_bytes"),
    )


def _host_integer(value: float | None) -> int | None:
    return int(value) if value is not None and isfinite(value) else None
