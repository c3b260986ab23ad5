"""What is left of the device under a model, by its fullest resource."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from diagnostics.signals.device import DEVICE_HEADROOM, GPU_AT_LIMIT, HOST_CPU_BUSY
from diagnostics.signals.signal import Missing, Reading
from tests.builders import Stage, SyntheticTriton, model_config, view_of

ON_GPU = [{"kind": "KIND_GPU", "count": 1, "gpus": [0]}]
BUSY_KERNELS = {"utilization_gpu_percent": 95}


def headroom(gpu: Mapping[str, object] | None, backend: str = "tensorrt") -> Reading:
    stage = Stage("m", rate=10, execution=0.01, config=model_config("m", backend=backend, groups=ON_GPU))
    return DEVICE_HEADROOM.read(view_of(SyntheticTriton(models=(stage,), gpu=gpu).window(), "m"))


def gpm(**percent: float) -> dict[str, object]:
    return {**BUSY_KERNELS, "gpm": {"graphics_util": 95.0, **percent}}


@pytest.mark.parametrize(
    ("shares", "left"),
    [
        ({"sm_util": 35.0, "tensor_util": 20.0, "dram_bw_util": 10.0}, 0.65),
        ({"sm_util": 35.0, "tensor_util": 60.0, "dram_bw_util": 10.0}, 0.40),
        ({"sm_util": 35.0, "tensor_util": 20.0, "dram_bw_util": 92.0}, 0.08),
    ],
    ids=["SM", "tensor", "DRAM"],
)
def test_the_fullest_resource_decides_where_kernels_overlap(shares: dict[str, float], left: float) -> None:
    found = headroom(gpm(**shares))

    assert found.value == pytest.approx(left)
    assert found.high == pytest.approx(left)
    assert found.low == pytest.approx(min(left, 0.05))


def test_processes_that_take_turns_are_limited_by_time_with_any_kernel() -> None:
    found = headroom(gpm(sm_util=35.0), backend="python")

    assert found.value == pytest.approx(0.05)
    assert found.high == pytest.approx(0.65)


def test_the_power_cap_is_a_resource_too() -> None:
    sample = {**gpm(sm_util=40.0), "power_mw": 679_000, "power_limit_mw": 700_000}

    assert headroom(sample).value == pytest.approx(1 - 679 / 700)


def test_utilization_alone_is_a_bound_that_cannot_tell_a_full_card() -> None:
    found = headroom(BUSY_KERNELS)

    assert found.estimated
    assert found.low == pytest.approx(0.05)
    assert found.high == pytest.approx(1.0)


def test_no_time_left_on_well_filled_processors_is_a_full_card() -> None:
    full = {"utilization_gpu_percent": 100, "gpm": {"graphics_util": 99.9, "sm_util": 85.0}}
    sparse = {"utilization_gpu_percent": 100, "gpm": {"graphics_util": 99.9, "sm_util": 30.0}}

    assert headroom(full).high == pytest.approx(0.001)
    assert headroom(sparse).high == pytest.approx(0.7)


def test_the_emptiest_of_the_models_cards_decides() -> None:
    """Any free instance may take a request."""
    config = model_config("m", backend="tensorrt", groups=[{"kind": "KIND_GPU", "count": 1, "gpus": [0, 1]}])
    gauges = [
        f'{name}{{gpu_uuid="GPU-{i}"}} {value}'
        for i, watts in enumerate((690, 100))
        for name, value in (
            ("nv_gpu_utilization", 0.5),
            ("nv_gpu_power_usage", watts),
            ("nv_gpu_power_limit", 700),
        )
    ]
    triton = SyntheticTriton(models=(Stage("m", rate=10, config=config),), extra_metrics=lambda _: gauges)

    assert DEVICE_HEADROOM.read(view_of(triton.window(), "m")).high == pytest.approx(1 - 100 / 700)


def test_a_lost_power_sensor_reads_zero_and_is_no_idle_card() -> None:
    gauges = [
        'nv_gpu_utilization{gpu_uuid="GPU-0"} 0.9',
        'nv_gpu_power_usage{gpu_uuid="GPU-0"} 0',
        'nv_gpu_power_limit{gpu_uuid="GPU-0"} 700',
    ]
    stage = Stage("m", rate=10, config=model_config("m", backend="tensorrt", groups=ON_GPU))
    found = DEVICE_HEADROOM.read(
        view_of(SyntheticTriton(models=(stage,), extra_metrics=lambda _: gauges).window(), "m")
    )

    assert found.low == pytest.approx(0.1)
    assert found.estimated


def test_a_gpu_that_nobody_measured_is_unknown() -> None:
    assert headroom(None).missing is Missing.NOT_EXPORTED
    assert headroom({}).missing is Missing.NOT_EXPORTED


def test_a_model_on_processors_has_what_the_host_has_left() -> None:
    stage = Stage("m", rate=10, config=model_config("m"))
    window = SyntheticTriton(models=(stage,), cpu_busy=0.7, gpu=gpm(sm_util=99.0)).window()

    assert DEVICE_HEADROOM.read(view_of(window, "m")).value == pytest.approx(0.3)


def test_without_configuration_it_is_not_known_which_device_it_is() -> None:
    window = SyntheticTriton(models=(Stage("m", rate=10),), gpu=gpm(sm_util=10.0)).window()

    assert DEVICE_HEADROOM.read(view_of(window, "m")).missing is Missing.NOT_EXPORTED


def test_the_host_is_as_busy_as_its_processor_time_says() -> None:
    window = SyntheticTriton(models=(Stage("m", rate=1),), cpu_busy=0.35).window()

    assert HOST_CPU_BUSY.read(view_of(window, None, None)).value == pytest.approx(0.35)


def test_tritons_own_gauge_stands_in_for_host_samples() -> None:
    triton = SyntheticTriton(
        models=(Stage("m", rate=1),),
        cpu_busy=None,
        extra_metrics=lambda i: [f"nv_cpu_utilization {0.4 + 0.1 * (i % 2)}"],
    )
    found = HOST_CPU_BUSY.read(view_of(triton.window(reads=2), None, None))

    assert found.value == pytest.approx(0.45)
    assert found.source == "metrics"


def test_a_server_whose_host_nobody_looked_at_is_unknown() -> None:
    window = SyntheticTriton(models=(Stage("m", rate=1),), cpu_busy=None).window()

    assert HOST_CPU_BUSY.read(view_of(window, None, None)).missing is Missing.NOT_EXPORTED


@pytest.mark.parametrize(("shares", "expected"), [({"dram_bw_util": 95.0}, 1.0), ({"dram_bw_util": 60.0}, 0.0)])
def test_a_card_is_at_its_limit_while_a_certain_resource_has_under_a_tenth_left(
    shares: dict[str, float], expected: float
) -> None:
    stage = Stage("m", rate=10, config=model_config("m", groups=ON_GPU))
    window = SyntheticTriton(models=(stage,), gpu=gpm(**shares)).window()

    assert GPU_AT_LIMIT.read(view_of(window, None, None)).value == expected
