"""The ids that are fixed by design, with their layers; most have no check yet."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics.checks.check import Layer

_BY_LAYER: Mapping[Layer, str] = {
    Layer.SERVING: """
        single-instance-serialization batch-size-collapse batch-window-mistuned batching-without-gain over-instanced
        capacity-exceeded bursty-arrivals queue-rejections request-failures ensemble-overhead external-orchestration
        bls-serialization input-output-cost sequence-batcher-starved frontend-limited scheduler-stall cold-start
        model-reload-stall model-unavailable execution-hung version-regression priority-starvation""",
    Layer.ENGINE: """
        kv-cache-exhausted kv-cache-thrashing engine-batch-limit inflight-batching-off engine-bound engine-token-budget
        prefill-interference""",
    Layer.GPU: """
        gpu-saturated gpu-contended-by-other-process gpu-contended-by-colocated-model gpu-throttled gpu-memory-pressure
        gpu-fault idle-clocks""",
    Layer.HOST: "host-cpu-starved memory-growth",
    Layer.CLIENT: "client-or-transport-bound workload-shift",
    Layer.FLEET: "replica-imbalance replica-outlier",
    Layer.TELEMETRY: "telemetry-blind-spot telemetry-implausible observer-overhead",
}
DESIGNED: Mapping[str, Layer] = {id_: layer for layer, ids in _BY_LAYER.items() for id_ in ids.split()}
