"""Clocks, caps, memory and faults of a card."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.signals import gpu
from diagnostics.signals.signal import Missing, Scope, Signal
from diagnostics.window.window import Window
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, model_config
from tests.builders_machine import body, card_view, machine_window

ON_GPU = [{"kind": "KIND_GPU", "count": 1, "gpus": [0]}]
TRITON = SyntheticTriton(models=(Stage("m", rate=10, execution=0.01, config=model_config("m", groups=ON_GPU)),))


def window_of(card: Callable[[float], Mapping[str, object]]) -> Window:
    return machine_window(TRITON, gpus=lambda at: [card(at)])


def value(signal: Signal, card: Callable[[float], Mapping[str, object]]) -> float | None:
    return signal.read(card_view(window_of(card))).value


def clocked(mhz: float, reasons: int, **more: object) -> Mapping[str, object]:
    return {"sm_clock_mhz": mhz, "max_sm_clock_mhz": 2000, "throttle_reasons": reasons, **more}


@pytest.mark.parametrize("reason", [0x8, 0x20, 0x40, 0x80])
def test_heat_and_power_supply_are_the_hardwares_reasons(reason: int) -> None:
    assert value(gpu.HELD_BACK_BY_HARDWARE, lambda _: clocked(1000, reason)) == 1.0
    assert value(gpu.HELD_BACK_BY_POWER_CAP, lambda _: clocked(1000, reason)) == 0.0
    assert value(gpu.CLOCK_LOST_TO_HARDWARE, lambda _: clocked(1000, reason)) == pytest.approx(0.5)


@pytest.mark.parametrize("reason", [0x0, 0x1, 0x2, 0x10, 0x100])
def test_idleness_and_limits_set_on_purpose_hold_nothing_back(reason: int) -> None:
    assert value(gpu.HELD_BACK_BY_HARDWARE, lambda _: clocked(1000, reason)) == 0.0
    assert value(gpu.HELD_BACK_BY_POWER_CAP, lambda _: clocked(1000, reason)) == 0.0


def test_the_clock_lost_to_the_cap_is_averaged_over_all_samples() -> None:
    def card(at: float) -> Mapping[str, object]:
        return clocked(1000, 4) if at < 30 else clocked(2000, 0)

    assert value(gpu.CLOCK_LOST_TO_POWER_CAP, card) == pytest.approx(0.25, abs=0.02)


def test_the_cap_is_set_against_the_cards_own() -> None:
    card = {"power_limit_mw": 350_000, "power_default_limit_mw": 700_000}

    assert value(gpu.POWER_CAP_SHARE, lambda _: card) == pytest.approx(0.5)


def test_an_idle_clock_is_read_while_the_card_works_and_nothing_else_holds_it() -> None:
    def card(at: float) -> Mapping[str, object]:
        if at < 20:
            return clocked(300, 1, utilization_gpu_percent=0)
        return clocked(600, 1, utilization_gpu_percent=3) if at < 40 else clocked(1500, 4, utilization_gpu_percent=99)

    assert value(gpu.IDLE_CLOCK_SHARE, card) == pytest.approx(0.3)


def test_memory_is_read_at_its_fullest() -> None:
    def card(at: float) -> Mapping[str, object]:
        return {"memory_total_bytes": 80e9, "memory_used_bytes": 70e9 if at == 5 else 10e9}

    assert value(gpu.GPU_MEMORY_USED, card) == pytest.approx(0.875)
    assert value(gpu.GPU_MEMORY_FREE, card) == pytest.approx(10e9)


@pytest.mark.parametrize(("codes", "expected"), [([79], 79), ([31], 0), ([31, 94], 94), ([], 0)])
def test_only_errors_of_the_card_are_its_fault(codes: list[int], expected: float) -> None:
    assert value(gpu.FAULT_CODE, lambda at: {"xids": codes if at == 7 else []}) == expected


def test_new_memory_errors_count_and_old_ones_do_not() -> None:
    assert value(gpu.MEMORY_ERRORS, lambda at: {"ecc_uncorrected": 5 if at < 30 else 7}) == 2
    assert value(gpu.MEMORY_ERRORS, lambda _: {"ecc_uncorrected": 5}) == 0


def test_a_card_that_stops_answering_is_still_the_same_card_and_lost() -> None:
    def card(at: float) -> Mapping[str, object]:
        return {"uuid": "GPU-0"} if at < 30 else {"uuid": None, "errors": {"handle": "GPU is lost"}}

    assert value(gpu.GPU_LOST, card) == pytest.approx(0.5, abs=0.02)


def test_a_card_that_is_only_slow_to_answer_is_not_lost() -> None:
    assert value(gpu.GPU_LOST, lambda _: {"errors": {"device": "no answer within 1 s"}}) == 0.0


def exporter_page(at: float, **values: float) -> str:
    return "".join(f'DCGM_FI_{name}{{gpu="0",UUID="GPU-0"}} {number}\n' for name, number in values.items())


def test_dcgm_stands_in_for_nvml_and_nvml_goes_before_it() -> None:
    pages = [
        body(BodyKind.DCGM, at, exporter_page(at, DEV_GPU_UTIL=97, DEV_POWER_USAGE=690)) for at in range(0, 60, 10)
    ]
    alone = machine_window(TRITON, more=pages)
    both = machine_window(TRITON, more=pages, gpus=lambda _: [{"utilization_gpu_percent": 10}])

    assert gpu.GPU_TIME_USED.read(card_view(alone)).value == pytest.approx(0.97)
    assert gpu.GPU_TIME_USED.read(card_view(alone)).source == "dcgm"
    assert gpu.GPU_TIME_USED.read(card_view(both)).value == pytest.approx(0.10)
    assert gpu.GPU_TIME_USED.read(card_view(both)).source == "nvml"


def test_dcgms_last_error_counts_only_when_it_changes() -> None:
    def fault(codes: Callable[[int], float]) -> float | None:
        pages = [body(BodyKind.DCGM, at, exporter_page(at, DEV_XID_ERRORS=codes(at))) for at in range(0, 60, 10)]
        return gpu.FAULT_CODE.read(card_view(machine_window(TRITON, more=pages))).value

    assert fault(lambda _: 79) == 0
    assert fault(lambda at: 79 if at >= 30 else 0) == 79


def test_tritons_own_gauges_tell_use_and_memory_and_nothing_of_clocks() -> None:
    gauges = [
        'nv_gpu_utilization{gpu_uuid="GPU-0"} 0.9',
        'nv_gpu_memory_used_bytes{gpu_uuid="GPU-0"} 40',
        'nv_gpu_memory_total_bytes{gpu_uuid="GPU-0"} 80',
    ]
    triton = SyntheticTriton(models=TRITON.models, extra_metrics=lambda _: gauges)
    view = card_view(triton.window())

    assert gpu.GPU_TIME_USED.read(view).source == "metrics"
    assert gpu.GPU_MEMORY_USED.read(view).value == pytest.approx(0.5)
    assert gpu.HELD_BACK_BY_HARDWARE.read(view).missing is Missing.NOT_EXPORTED
    assert gpu.FAULT_CODE.read(view).missing is Missing.NOT_EXPORTED


def test_another_servers_card_of_the_same_machine_is_none_of_this_ones() -> None:
    gauges = ['nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5']
    triton = SyntheticTriton(models=(Stage("m", rate=1),), extra_metrics=lambda _: gauges)
    window = machine_window(triton, gpus=lambda _: [{"utilization_gpu_percent": 99}, {"utilization_gpu_percent": 50}])
    cards = WindowEvidence(window).subjects(Scope.GPU)

    assert [card.gpu for card in cards] == ["GPU-1"]
