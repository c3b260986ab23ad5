from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.errors import MalformedBody
from diagnostics.wire.gpu import parse_dcgm

OLD = """# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",device="nvidia1",modelName="NVIDIA H100",Hostname="node"} 95
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b"} 1024
DCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-b"} 3000
DCGM_FI_DEV_FB_RESERVED{gpu="1",UUID="GPU-b"} 72
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b"} 350.5
DCGM_FI_DEV_POWER_MGMT_LIMIT{gpu="1",UUID="GPU-b"} 700
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-b"} 1410
DCGM_FI_DEV_MAX_SM_CLOCK{gpu="1",UUID="GPU-b"} 1980
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu="1",UUID="GPU-b"} 4
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="1",UUID="GPU-b"} 45000
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-b"} 79
DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="1",UUID="GPU-b"} 0
DCGM_FI_PROF_SM_ACTIVE{gpu="1",UUID="GPU-b"} 0.35
DCGM_FI_PROF_DRAM_ACTIVE{gpu="1",UUID="GPU-b"} 0.2
"""


def page(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_a_page_is_given_in_base_units():
    sample = parse_dcgm(OLD.encode(), at=5.0)
    (gpu,) = sample.gpus

    assert (sample.at, gpu.index, gpu.uuid, gpu.source) == (5.0, 1, "GPU-b", "dcgm")
    assert (gpu.utilization, gpu.sm_active, gpu.dram_active) == pytest.approx((0.95, 0.35, 0.2))
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (2**30, 2**32)
    assert (gpu.power_watts, gpu.power_limit_watts, gpu.throttle_reasons) == (350.5, 700.0, 4)
    assert (gpu.sm_clock_hertz, gpu.max_sm_clock_hertz, gpu.energy_joules) == (1.41e9, 1.98e9, 45.0)
    assert (gpu.xids, gpu.remap_failed, gpu.remap_pending, gpu.mig) == ((79,), False, None, None)


@pytest.mark.parametrize(
    ("line", "attribute", "value"),
    [
        ('DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="0",UUID="a"} 0.95', "utilization", 0.95),
        ('DCGM_FI_PROF_SM_UTIL_RATIO{gpu="0",UUID="a"} 0.5', "sm_active", 0.5),
        ('DCGM_FI_PROF_TENSOR_UTIL_RATIO{gpu="0",UUID="a"} 0.25', "tensor_active", 0.25),
        ('DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="0",UUID="a"} 64', "throttle_reasons", 64),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="a"} 1', "utilization", 0.01),
        ('DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="a"} 1', "sm_active", 1.0),
    ],
)
def test_names_that_say_ratio_and_profiling_fields_are_not_percent(line: str, attribute: str, value: float):
    (gpu,) = parse_dcgm(page(line), at=0.0).gpus

    assert getattr(gpu, attribute) == pytest.approx(value)


@pytest.mark.parametrize("blank", ["9223372036854775794", "140737488355328", "2147483632", "NaN", "-1"])
def test_blank_values_are_none(blank: str):
    (gpu,) = parse_dcgm(
        page(
            f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="a"}} {blank}',
            f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="a"}} {blank}',
            'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="a"} 40',
        ),
        at=0.0,
    ).gpus

    assert (gpu.utilization, gpu.power_watts, gpu.temperature_celsius) == (None, None, 40.0)


def test_rows_of_an_instance_belong_to_that_part_of_the_card_alone():
    labels = 'gpu="0",UUID="a",GPU_I_PROFILE="1g.10gb"'
    (gpu,) = parse_dcgm(
        page(
            f'DCGM_FI_PROF_SM_ACTIVE{{{labels},GPU_I_ID="1"}} 0.2',
            f'DCGM_FI_PROF_SM_ACTIVE{{{labels},GPU_I_ID="2"}} 0.9',
            f'DCGM_FI_DEV_FB_USED{{{labels},GPU_I_ID="2"}} 1024',
            f'DCGM_FI_DEV_FB_FREE{{{labels},GPU_I_ID="2"}} 3072',
            'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="a"} 300',
        ),
        at=0.0,
    ).gpus

    assert (gpu.mig, gpu.sm_active, gpu.memory_used_bytes, gpu.power_watts) == (True, None, None, 300.0)
    assert [(part.instance, part.sm_active) for part in gpu.parts] == [(1, 0.2), (2, 0.9)]
    assert (gpu.parts[1].memory_used_bytes, gpu.parts[1].memory_total_bytes) == (2**30, 2**32)


def test_a_card_that_pods_share_is_read_once_whatever_kubernetes_calls_them():
    (gpu,) = parse_dcgm(
        page(
            'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="a",pod="x",namespace="n",container="c"} 300',
            'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="a",exported_pod="y",exported_namespace="n"} 300',
            'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="a",pod="x",hostname="h",DCGM_FI_DRIVER_VERSION="580"} 40',
        ),
        at=0.0,
    ).gpus

    assert (gpu.power_watts, gpu.utilization, gpu.parts) == (300.0, 0.4, ())


def test_the_names_and_units_of_the_newest_exporter_are_read():
    (gpu,) = parse_dcgm(
        page(
            'DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="0",UUID="a"} 0.95',
            'DCGM_FI_DEV_FB_USED_BYTES{gpu="0",UUID="a"} 20000000000',
            'DCGM_FI_DEV_FB_CAPACITY_BYTES{gpu="0",UUID="a"} 85899345920',
            'DCGM_FI_DEV_SM_CLOCK_HERTZ{gpu="0",UUID="a"} 2200000000',
            'DCGM_FI_DEV_BOARD_POWER_WATTS{gpu="0",UUID="a"} 300',
            'DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS{gpu="0",UUID="a"} 700',
            'DCGM_FI_DEV_GPU_TEMP_CELSIUS{gpu="0",UUID="a"} 55',
            'DCGM_FI_DEV_XID_ERROR{gpu="0",UUID="a"} 79',
            'DCGM_FI_DEV_ROW_REMAP_FAILED{gpu="0",UUID="a"} 1',
        ),
        at=0.0,
    ).gpus

    assert (gpu.utilization, gpu.memory_used_bytes, gpu.memory_total_bytes) == (0.95, 2e10, 80 * 2**30)
    assert (gpu.sm_clock_hertz, gpu.power_watts, gpu.power_limit_watts) == (2.2e9, 300.0, 700.0)
    assert (gpu.temperature_celsius, gpu.xids, gpu.remap_failed) == (55.0, (79,), True)


def test_a_page_of_another_program_has_no_gpu():
    assert parse_dcgm(b"nv_inference_count 3\n", at=0.0).gpus == ()


def test_what_is_no_page_is_refused():
    with pytest.raises(MalformedBody):
        parse_dcgm(b"<html>", at=0.0)


@given(st.sampled_from(OLD.splitlines()[2:]), st.floats(allow_nan=True, allow_infinity=True))
def test_no_value_gives_a_share_outside_of_zero_and_one_or_a_negative_number(line: str, value: float):
    (gpu,) = parse_dcgm(f"{line.rpartition(' ')[0]} {value!r}\n".encode(), at=0.0).gpus or (None,)
    if gpu is None:
        return
    for attribute in ("utilization", "sm_active", "dram_active"):
        share = getattr(gpu, attribute)
        assert share is None or 0 <= share <= 1
    for attribute in ("power_watts", "memory_used_bytes", "sm_clock_hertz", "energy_joules"):
        number = getattr(gpu, attribute)
        assert number is None or number >= 0
