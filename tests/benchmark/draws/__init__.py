"""Incidents drawn from a seed: a cause, or a decoy that looks like it in its configuration.

One module per family. A kind is a function of a random generator; every configuration of a fault has a decoy of the
same configuration under a load, or with models, at which it is harmless. Seeds below 300 draw from the kinds that
were there first, so that what was recorded from them stays what it was; seeds from 300 on draw from all.

What this deployment cannot be made to show, and why:

- `model-reload-stall`: Triton serves the old copy until the new one is ready, so requests do not wait for a load of a
  Python model (`release_slow_to_load` is the decoy); it takes memory that holds one copy only.
- `capacity-exceeded`: stages that sleep always gain from one more instance; full processors are `host-cpu-starved`.
- `kv-cache-thrashing`, `engine-token-budget`: the engine stand-in reserves KV cache ahead and has no token budget.
- `memory-growth`, `observer-overhead`: need longer windows, or stages of microseconds, than are recorded here.
- `input-output-cost`, `ensemble-overhead`: moving bytes between processes costs the client and its frontend as much.
- `gpu-contended-by-colocated-model`, `gpu-throttled`, `gpu-fault`, `gpu-memory-pressure`, `idle-clocks`: cards that
  are lent are neither hot, broken nor full, and two models on one card are told apart by nothing but the order.
- `telemetry-*`: tests take pieces out of recordings instead.
- `scheduler-stall` alone: the stalls that a queue policy brings come with refusals (`overflow`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from tests.benchmark.draws import batching, engines, failures, fleet, gpu, instances, releases, schedulers, traffic
from tests.benchmark.draws.base import Drawn

Kind = Callable[[random.Random], Drawn]
ALL_KINDS_FROM = 300


def draw_gpu(seed: int) -> Drawn:
    """Return the incident of a seed for a machine with a GPU, kinds in turn."""
    return _ON_GPU[sorted(_ON_GPU)[seed % len(_ON_GPU)]](random.Random(seed))


def draw(seed: int) -> Drawn:
    """Return the incident of a seed; every third one is a decoy, and kinds come in turn."""
    decoy, turn = seed % 3 == 0, seed // 3 if seed % 3 == 0 else seed - seed // 3
    first = _FIRST_DECOYS if decoy else _FIRST_FAULTS
    more: Mapping[str, Kind] = {} if seed < ALL_KINDS_FROM else _MORE_DECOYS if decoy else _MORE_FAULTS
    table = {**first, **more}
    return table[sorted(table)[turn % len(table)]](random.Random(seed))


def _by_name(*kinds: Kind) -> Mapping[str, Kind]:
    return {kind.__name__: kind for kind in kinds}


_FIRST_FAULTS = _by_name(
    instances.single_instance,
    batching.batch_collapse,
    batching.batch_window,
    batching.no_gain,
    releases.cold_start,
    instances.overflow,
    failures.errors,
    engines.engine_slots,
    engines.kv_exhausted,
    traffic.bursts,
    traffic.by_hand,
)
_FIRST_DECOYS = _by_name(
    traffic.healthy,
    traffic.quiet,
    traffic.closed_loop,
    instances.single_instance_idle,
    batching.unbatched_idle,
    batching.window_harmless,
    releases.release_warm,
    instances.limit_unreached,
    engines.engine_small_idle,
)
_MORE_FAULTS = _by_name(
    instances.expiring,
    failures.thrown,
    failures.hung,
    failures.broken_version,
    releases.slower_version,
    engines.long_prompts,
    engines.static_batches,
    traffic.more_traffic,
    traffic.larger_requests,
    traffic.far_clients,
    traffic.few_threads,
    schedulers.caller,
    schedulers.sequences,
    schedulers.priorities,
    fleet.uneven,
    fleet.slow_replica,
    fleet.few_cores,
)
_MORE_DECOYS = _by_name(
    instances.timeout_unreached,
    releases.release_slow_to_load,
    engines.long_prompts_rare,
    engines.static_idle,
    traffic.more_traffic_unfelt,
    traffic.large_requests,
    traffic.near_clients,
    traffic.few_threads_idle,
    schedulers.caller_idle,
    schedulers.sequences_idle,
    schedulers.priorities_idle,
    fleet.even_fleet,
    fleet.uneven_unfelt,
    fleet.few_cores_idle,
)
_ON_GPU = _by_name(gpu.gpu_single, gpu.gpu_idle, gpu.gpu_full, gpu.gpu_crowded, gpu.gpu_shared, gpu.gpu_in_use)
