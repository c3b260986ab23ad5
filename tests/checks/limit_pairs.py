"""Pairs of stated situations, 7 % to either side of a limit; they stand apart from the code that they hold in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from diagnostics.signals.callers import CLIENT_DELAY_SECONDS, FRONTEND_CPU_WAIT, PORT_LAG, WAITING_ELSEWHERE
from diagnostics.signals.cpu_steps import CPU_SHORT_EXCESS_COMPUTE, CPU_SHORT_SHARE
from diagnostics.signals.dispersion import EXECUTION_DISPERSION, UNDISTURBED_EXECUTION_SHARE
from diagnostics.signals.executions import BATCH_MARGINAL_COST
from diagnostics.signals.gone_processes import GONE_PROCESSES
from diagnostics.signals.host import COPY_CPU, CPU_WAIT_PER_LANE
from diagnostics.signals.new_sizes import (
    LARGEST_NEW_SIZE,
    NEW_SIZE_COMPUTE_SECONDS,
    NEW_SIZE_QUEUE_SECONDS,
    NEW_SIZE_SECONDS,
    NEW_SIZE_SLOWDOWN,
    NEW_SIZES,
)
from diagnostics.signals.outages import STOPPED_SECONDS
from diagnostics.signals.overlap import OVERLAP_STRETCH
from diagnostics.signals.settings import PRESERVES_ORDER
from diagnostics.signals.signal import Signal
from diagnostics.signals.triton import INPUT_SECONDS, OUTPUT_SECONDS, REQUEST_RATE

# Signals of pairs that no check's case states.
ELSEWHERE: tuple[Signal, ...] = (
    *(BATCH_MARGINAL_COST, CLIENT_DELAY_SECONDS, CPU_SHORT_EXCESS_COMPUTE, CPU_SHORT_SHARE, CPU_WAIT_PER_LANE),
    *(LARGEST_NEW_SIZE, NEW_SIZE_COMPUTE_SECONDS, NEW_SIZE_QUEUE_SECONDS, NEW_SIZE_SECONDS, NEW_SIZE_SLOWDOWN),
    *(
        NEW_SIZES,
        PRESERVES_ORDER,
        COPY_CPU,
        EXECUTION_DISPERSION,
        INPUT_SECONDS,
        OUTPUT_SECONDS,
        UNDISTURBED_EXECUTION_SHARE,
    ),
    *(FRONTEND_CPU_WAIT, GONE_PROCESSES, OVERLAP_STRETCH, PORT_LAG, REQUEST_RATE, STOPPED_SECONDS, WAITING_ELSEWHERE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A firing case of a check with one signal at two values, and what the check says at each.

    Attributes:
        check, limit: the limit that lies between the two.
        signal: what moves; in its own unit.
        case: which of the check's firing cases.
        given: what else is stated otherwise than in that case.
        without: which of its readings is absent.

    """

    check: str
    limit: str
    signal: str
    below: float
    says_below: str
    above: float
    says_above: str
    case: int = 0
    given: Mapping[str, float] = field(default_factory=dict)
    without: str = ""


def _read(line: str) -> Pair:
    check, limit, signal, below, says_below, above, says_above, *more = line.split()
    stated = {key: value for key, _, value in (item.partition("=") for item in more)}
    return Pair(
        check=check,
        limit=limit,
        signal=signal,
        below=float(below),
        says_below=says_below,
        above=float(above),
        says_above=says_above,
        case=int(stated.pop("case", 0)),
        without=stated.pop("without", ""),
        given={name: float(value) for name, value in stated.items()},
    )


# Check, limit, signal, its lower value and what is said, its upper value and what is said, then what else is stated.
_TABLE = """
batch-size-collapse busy instance_busy_share 0.651 quiet 0.749 fires
batch-size-collapse batch_fill batch_size 2.848 fires 3.277 quiet
batch-size-collapse max_batch_size max_batch_size 1.86 quiet 2.14 unknown without=instance_busy_share
batch-size-collapse queue queue_seconds 0.00465 quiet 0.00535 unknown without=instance_busy_share
batch-size-collapse batch_marginal_cost batch_marginal_cost 0.465 fires 0.535 quiet
batch-window-mistuned busy instance_busy_share 0.651 fires 0.749 quiet
batch-window-mistuned queue_in_gathering_low queue_seconds 0.0223 quiet 0.0257 fires request_seconds=0.1
batch-window-mistuned queue_in_gathering_high queue_seconds 0.0837 fires 0.0963 quiet
batch-window-mistuned queue queue_seconds 0.00465 quiet 0.00535 unknown without=dynamic_batching
batching-without-gain batch_marginal_cost batch_marginal_cost 0.744 quiet 0.856 fires
batching-without-gain batch_size batch_size 1.395 quiet 1.605 fires
bls-serialization queue queue_seconds 0.00465 quiet 0.00535 unknown without=instance_busy_share
bls-serialization busy instance_busy_share 0.651 quiet 0.749 mitigates
bls-serialization nested_share nested_share 0.465 quiet 0.535 mitigates
bls-serialization nested_wait nested_wait 0.2325 mitigates 0.2675 quiet
bls-serialization host_cpu_busy host_cpu_busy 0.837 mitigates 0.963 quiet
bursty-arrivals peak_to_mean peak_to_mean 1.86 quiet 2.14 fires
bursty-arrivals burst_size burst_size 3.72 quiet 4.28 fires
bursty-arrivals burst_certainty burst_certainty 4.418 quiet 5.083 fires
bursty-arrivals crowding_certainty crowding_certainty 1.525 quiet 1.755 fires
bursty-arrivals instance_busy_share instance_busy_share 0.651 fires 0.749 quiet
bursty-arrivals host_cpu_busy host_cpu_busy 0.837 fires 0.963 quiet
bursty-arrivals queue queue_seconds 0.00465 quiet 0.00535 fires crowded_tail_seconds=0 request_seconds=0.02 \
    arrival_rate=1 execution_seconds=0.001 instances=1 max_batch_size=1 dynamic_batching=0 max_queue_delay=0 \
    client_batch_size=1
capacity-exceeded overlap_stretch overlap_stretch 1.1625 mitigates 1.3375 quiet
capacity-exceeded busy instance_busy_share 0.651 quiet 0.749 mitigates
capacity-exceeded device_headroom device_headroom 0.093 quiet 0.107 mitigates
capacity-exceeded cpu_wait_per_lane cpu_wait_per_lane 0.465 mitigates 0.535 quiet
capacity-exceeded host_cpu_busy host_cpu_busy 0.837 mitigates 0.963 quiet
capacity-exceeded queue queue_seconds 0.00465 quiet 0.00535 unknown without=instance_busy_share
capacity-exceeded batch_fill batch_size 7.44 quiet 8.56 unknown without=device_headroom max_batch_size=16 \
    dynamic_batching=1
client-or-transport-bound requests requests 27.9 quiet 32.1 fires
client-or-transport-bound outside_seconds outside_seconds 0.00465 quiet 0.00535 fires outside_seconds=0.008 \
    request_seconds=0.005 handling_seconds=2e-05
client-or-transport-bound outside_share outside_seconds 0.008106 quiet 0.009559 fires
client-or-transport-bound client_delay_seconds client_delay_seconds 0.00465 quiet 0.00535 fires \
    outside_seconds=0.001 request_seconds=0.005 queue_seconds=0 instance_busy_share=0.1
client-or-transport-bound client_delay_share client_delay_seconds 0.00810 quiet 0.00957 fires outside_seconds=0.001 \
    queue_seconds=0 instance_busy_share=0.1
client-or-transport-bound busy instance_busy_share 0.651 fires 0.749 quiet client_delay_seconds=0.08 \
    outside_seconds=0.001 queue_seconds=0
client-or-transport-bound waiting_elsewhere waiting_elsewhere 0.465 fires 0.535 quiet
client-or-transport-bound missed_reads missed_reads 0.0465 fires 0.0535 quiet
client-or-transport-bound host_cpu_busy host_cpu_busy 0.837 fires 0.963 quiet
client-or-transport-bound port_lag_share port_lag 0.0186 fires 0.0214 quiet frontend_busy=0.1
client-or-transport-bound port_lag_upper_quartile port_lag 0.00465 fires 0.00535 quiet
client-or-transport-bound handled_at_once handling_seconds 0.0093 fires 0.0107 quiet request_rate=50
client-or-transport-bound frontend_busy frontend_busy 0.465 fires 0.535 quiet
client-or-transport-bound request_rate request_rate 930 fires 1070 unknown without=handling_seconds preserve_ordering=0
cold-start cold_slowdown cold_slowdown 2.79 quiet 3.21 fires
cold-start cold_again cold_again 1.86 fires 2.14 quiet
cold-start new_size_slowdown new_size_slowdown 2.79 quiet 3.21 fires cold_slowdown=0 new_size_compute_seconds=0.1 \
 new_size_queue_seconds=0.01 new_size_seconds=2 new_sizes=4 largest_new_size=8
engine-token-budget engine_waiting_share engine_waiting_share 0.31 quiet 0.3567 fires
engine-token-budget engine_slot_fill engine_slot_fill 0.6045 fires 0.6955 unknown without=engine_peak_slot_fill
engine-token-budget engine_kv_blocked_share engine_kv_blocked_share 0.465 fires 0.535 quiet
engine-token-budget engine_peak_slot_fill engine_peak_slot_fill 0.93 fires 1.07 quiet engine_slot_fill=0.9
ensemble-overhead ensemble_calls ensemble_calls 0.93 quiet 1.07 fires
ensemble-overhead host_cpu_busy host_cpu_busy 0.837 fires 0.963 quiet
execution-hung standstill_seconds standstill_seconds 9.3 quiet 10.7 mitigates
execution-hung standstill_executions execution_seconds 1.869 mitigates 2.151 quiet
single-instance-serialization rate_limiter_use rate_limiter_use 0.651 quiet 0.749 fires case=1
execution-hung lost_instances lost_instances 0.93 quiet 1.07 mitigates case=1
execution-hung queue queue_seconds 0.00465 quiet 0.00535 mitigates case=1 arrival_rate=1 request_seconds=0.03
execution-hung failed_share failed_share 0.0093 quiet 0.0107 mitigates case=1 queue_seconds=0.001 processes_gone=1 \
    instance_processes=1
external-orchestration direct_calls direct_calls 27.9 quiet 32.1 fires
external-orchestration ensemble_part ensemble_calls 2.009 fires 2.311 quiet direct_calls=43.2
external-orchestration lockstep_gap lockstep_gap 0.465 fires 0.535 quiet
external-orchestration called_in_step_with_a_model called_in_step_with_a_model 0.465 fires 0.535 quiet
external-orchestration hop_seconds hop_seconds 0.00465 informs 0.00535 fires orchestrated_seconds=0.01
external-orchestration hop_share hop_seconds 0.02706 informs 0.03114 fires
frontend-limited requests requests 27.9 quiet 32.1 fires
frontend-limited frontend_busy frontend_busy 0.651 quiet 0.749 fires case=2 outside_seconds=0.04
frontend-limited outside_seconds outside_seconds 0.00465 quiet 0.00535 fires case=2 request_seconds=0.005
frontend-limited outside_share outside_seconds 0.0197 quiet 0.0227 fires case=2
frontend-limited line_share outside_seconds 0.0935 fires 0.107 quiet case=2
frontend-limited frontend_cpu_wait frontend_cpu_wait 0.093 fires 0.107 quiet case=2 host_cpu_busy=0.99
frontend-limited handling_seconds handling_seconds 0.00465 quiet 0.00535 fires handling_seconds=0.006 \
    request_seconds=0.005
frontend-limited handling_share handling_seconds 0.008106 quiet 0.009559 fires
frontend-limited missed_reads missed_reads 0.0465 quiet 0.0535 fires case=1
frontend-limited port_lag_share port_lag 0.06975 quiet 0.08025 fires case=1
frontend-limited host_cpu_busy host_cpu_busy 0.837 fires 0.963 quiet
gpu-contended-by-other-process foreign_gpu_tail foreign_gpu_stay 0.048 quiet 0.053 fires foreign_excess_request=0.003
gpu-fault gpu_fault_code gpu_fault_code 0.93 quiet 1.07 mitigates
gpu-fault gpu_memory_errors gpu_fault_code 0.93 quiet 1.07 mitigates
gpu-fault gpu_remap_failed gpu_fault_code 0.93 quiet 1.07 mitigates
gpu-memory-pressure loads_out_of_memory loads_out_of_memory 0.93 quiet 1.07 mitigates
gpu-memory-pressure gpu_memory_free gpu_memory_free 6.24e7 fires 7.18e7 informs case=2
gpu-memory-pressure failed_requests failed_requests 4.65 informs 5.35 fires case=2
gpu-memory-pressure failed_share failed_requests 93 informs 107 fires case=2 requests=9900
gpu-saturated queue queue_seconds 0.00465 quiet 0.00535 unknown without=instance_busy_share
gpu-saturated busy instance_busy_share 0.651 quiet 0.749 fires
gpu-saturated device_headroom device_headroom 0.093 fires 0.107 quiet
gpu-throttled clock_lost clock_lost_to_hardware 0.0465 quiet 0.0535 unknown without=on_gpu
gpu-throttled power_cap_share power_cap_share 0.837 unknown 0.963 informs case=1 without=on_gpu
host-cpu-starved queue queue_seconds 0.00465 quiet 0.00535 unknown without=instance_busy_share
host-cpu-starved busy instance_busy_share 0.651 quiet 0.749 fires
host-cpu-starved cpu_short_tail cpu_short_share 0.0465 quiet 0.0535 fires queue_seconds=0.0001 \
    cpu_short_excess_compute=0.5
host-cpu-starved cpu_starved cpu_wait_per_lane 0.465 quiet 0.535 fires host_cpu_busy=0.5
host-cpu-starved cpu_wait_per_lane cpu_wait_per_lane 0.093 quiet 0.107 fires
host-cpu-starved occupied instance_busy_share 0.2325 quiet 0.2675 fires cpu_wait_per_lane=0.7
inflight-batching-off engine_waiting_share engine_waiting_share 0.31 quiet 0.3567 fires
inflight-batching-off engine_peak_scheduled engine_peak_scheduled 0.93 fires 1.07 quiet
inflight-batching-off engine_slots engine_slots 1.86 quiet 2.14 fires
input-output-cost copies_to_execution compute_seconds 0.03738 fires 0.04301 quiet
input-output-cost host_cpu_busy host_cpu_busy 0.837 fires 0.963 quiet
kv-cache-exhausted engine_slot_fill engine_slot_fill 0.6045 fires 0.6955 unknown without=engine_peak_slot_fill case=1
kv-cache-exhausted engine_peak_scheduled engine_peak_scheduled 1.86 quiet 2.14 fires case=1
kv-cache-exhausted engine_kv_blocked_share engine_kv_blocked_share 0.465 quiet 0.535 fires engine_context_share=0.9
kv-cache-exhausted engine_peak_slot_fill engine_peak_slot_fill 0.93 fires 1.07 quiet engine_slot_fill=0.7 case=1
kv-cache-exhausted engine_kv_full_share engine_kv_used_share 0.6975 quiet 0.8025 fires case=1 \
    engine_max_utilization=1
model-reload-stall loads loads 0.93 quiet 1.07 fires
model-reload-stall load_queue_share load_queue_share 0.465 quiet 0.535 fires
model-reload-stall held_requests held_requests 0.0465 quiet 0.0535 fires case=1
model-reload-stall held_share held_share 0.465 quiet 0.535 fires case=1
model-reload-stall cold_slowdown cold_slowdown 1.395 fires 1.605 quiet
model-unavailable failed_versions failed_versions 0.93 quiet 1.07 fires
model-unavailable inference_port_refuses inference_port_refuses 0.93 quiet 1.07 fires case=3
model-unavailable refused_while_unavailable refused_while_unavailable 4.65 quiet 5.35 fires case=2
over-instanced busy instance_busy_share 0.651 quiet 0.749 informs
over-instanced device_headroom device_headroom 0.093 unknown 0.107 quiet without=max_batch_size
over-instanced requests_executing arrival_rate 19.4 quiet 22.4 fires
over-instanced instances instances 3.72 quiet 4.28 informs
over-instanced enough_instances_share arrival_rate 64 informs 73 quiet device_headroom=0.05
prefill-interference engine_context_share engine_context_share 0.31 quiet 0.3567 unknown \
    without=engine_prefill_stall_share
priority-starvation queue queue_seconds 0.00465 quiet 0.00535 unknown without=priority_levels
priority-starvation priority_levels priority_levels 1.86 quiet 2.14 fires
priority-starvation instance_busy_share instance_busy_share 0.651 quiet 0.749 fires
priority-starvation queue_spread queue_spread 9.3 quiet 10.7 fires
queue-rejections refused_requests lost_before_stage 4.65 quiet 5.35 unknown without=requests
queue-rejections refused_share lost_before_stage 10.09 quiet 11.61 mitigates
queue-rejections busy instance_busy_share 0.651 fires 0.749 mitigates
replica-imbalance replicas replicas 1.86 quiet 2.14 fires
replica-imbalance traffic_ratio traffic_ratio 1.395 quiet 1.605 fires
replica-imbalance traffic_certainty traffic_certainty 4.418 quiet 5.083 fires
replica-outlier replicas replicas 1.86 quiet 2.14 mitigates
replica-outlier execution_ratio execution_ratio 1.209 quiet 1.391 mitigates
replica-outlier traffic_ratio traffic_ratio 1.395 mitigates 1.605 quiet
replica-outlier even_traffic traffic_ratio 1.023 mitigates 1.177 quiet execution_excess=0 queue_ahead=1 queue_seconds=1
request-failures failed_requests lost_after_stage 4.65 quiet 5.35 unknown without=failed_requests
request-failures failed_share failed_requests 6.045 quiet 6.965 mitigates
request-failures explained_share lost_after_stage 93 quiet 107 mitigates failed_requests=200 rejected_requests=200
scheduler-stall queue queue_seconds 0.00465 quiet 0.00535 unknown
scheduler-stall busy instance_busy_share 0.651 fires 0.749 quiet
scheduler-stall host_cpu_busy host_cpu_busy 0.837 fires 0.963 quiet
sequence-batcher-starved queue queue_seconds 0.00465 quiet 0.00535 unknown without=sequence_batching
sequence-batcher-starved instance_busy_share instance_busy_share 0.651 fires 0.749 quiet
single-instance-serialization overlap_stretch overlap_stretch 1.1625 fires 1.3375 quiet
single-instance-serialization busy instance_busy_share 0.651 quiet 0.749 fires
model-unavailable stopped_seconds stopped_seconds 0.93 quiet 1.07 fires case=2 refused_while_unavailable=0
single-instance-serialization device_headroom device_headroom 0.093 quiet 0.107 fires
single-instance-serialization cpu_wait_per_lane cpu_wait_per_lane 0.465 fires 0.535 quiet
single-instance-serialization host_cpu_busy host_cpu_busy 0.837 fires 0.963 quiet
single-instance-serialization queue queue_seconds 0.00465 quiet 0.00535 unknown without=instance_busy_share
input-output-cost copy_cpu copy_cpu 0.465 unknown 0.535 fires
ensemble-overhead copy_cpu copy_cpu 0.465 unknown 0.535 fires input_seconds=0.05 output_seconds=0.01
client-or-transport-bound copy_cpu copy_cpu 0.465 unknown 0.535 fires input_seconds=0.05 output_seconds=0.01
single-instance-serialization execution_dispersion execution_dispersion 0.93 fires 1.07 unknown \
 undisturbed_execution_share=0.6
single-instance-serialization explained_queue_share queue_seconds 1.003 fires 1.154 unknown \
    execution_dispersion=2 undisturbed_execution_share=1
single-instance-serialization batch_fill batch_size 3.475 quiet 3.995 unknown without=device_headroom \
    max_batch_size=16 dynamic_batching=1
telemetry-implausible implausible_steps implausible_steps 0.93 quiet 1.07 fires
telemetry-implausible counted_share counted_share 0.744 fires 0.856 quiet case=1
version-regression version_slowdown version_slowdown 1.116 quiet 1.284 mitigates
workload-shift size_shift size_shift 1.395 mitigates 1.605 quiet
workload-shift rate_shift size_shift 1.395 mitigates 1.605 quiet
workload-shift rate_shift_certainty rate_shift_certainty 4.418 quiet 5.083 mitigates
workload-shift instance_busy_share instance_busy_share 0.651 mitigates 0.749 informs
"""
PAIRS: tuple[Pair, ...] = tuple(_read(line) for line in _TABLE.strip().splitlines())
