from __future__ import annotations

import json

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.wire import gpu
from diagnostics.wire.gpu import Gpu, GpuSample, parse_nvml

SAMPLE = {
    "t": 1795817819.1,
    "driver_version": "580.159.04",
    "gpus": [
        {
            "index": 0,
            "uuid": "GPU-6ac1e34e",
            "name": "NVIDIA H200",
            "utilization_gpu_percent": 25,
            "memory_total_bytes": 150754820096,
            "memory_used_bytes": 8251179008,
            "power_mw": 161500,
            "power_limit_mw": 700000,
            "temperature_c": 39,
            "sm_clock_mhz": 1980,
            "max_sm_clock_mhz": 1980,
            "throttle_reasons": 4,
            "total_energy_mj": 45348000,
            "mig_mode": 0,
            "processes": [{"pid": 7, "used_memory_bytes": 614465536}, {"pid": 8, "used_memory_bytes": None}],
            "process_utilization": [{"pid": 7, "sm_percent": 50}, {"pid": 8, "sm_percent": None}],
            "gpm": {
                "sm_util": 12.5,
                "sm_occupancy": 6.25,
                "tensor_util": 0,
                "dram_bw_util": 50,
                "graphics_util": 100,
            },
        }
    ],
}


def sample_with(**values: object) -> bytes:
    return json.dumps(SAMPLE | {"gpus": [SAMPLE["gpus"][0] | values]}).encode()


def test_a_sample_is_given_in_base_units():
    assert parse_nvml(json.dumps(SAMPLE).encode()) == GpuSample(
        at=1795817819.1,
        driver_version="580.159.04",
        gpus=(
            Gpu(
                index=0,
                uuid="GPU-6ac1e34e",
                name="NVIDIA H200",
                utilization=0.25,
                memory_total_bytes=150754820096.0,
                memory_used_bytes=8251179008.0,
                power_watts=161.5,
                power_limit_watts=700.0,
                temperature_celsius=39.0,
                sm_clock_hertz=1.98e9,
                max_sm_clock_hertz=1.98e9,
                throttle_reasons=4,
                energy_joules=45348.0,
                mig=False,
                process_memory={7: 614465536, 8: None},
                process_sm={7: 0.5},
                sm_active=0.125,
                sm_occupancy=0.0625,
                tensor_active=0.0,
                dram_active=0.5,
                graphics_active=1.0,
            ),
        ),
    )


def test_what_the_card_does_not_give_is_none():
    assert parse_nvml(b'{"gpus": [{"utilization_gpu_percent": null, "gpm": null}]}') == GpuSample(
        at=None, gpus=(Gpu(index=0),)
    )


@pytest.mark.parametrize("blank", [2**63 - 16, 2**63 - 1, 140737488355328.0, 0x7FFFFFF0, -1, 151, "n/a", 1e300])
def test_an_absurd_share_is_none(blank):
    assert parse_nvml(sample_with(utilization_gpu_percent=blank)).gpus[0].utilization is None


@pytest.mark.parametrize("blank", [2**63 - 16, 140737488355328.0, 0x7FFFFFF0, -1])
def test_a_blank_value_of_dcgm_is_no_power(blank):
    assert parse_nvml(sample_with(power_mw=blank)).gpus[0].power_watts is None


def test_a_share_a_little_past_one_is_one():
    assert parse_nvml(sample_with(utilization_gpu_percent=104)).gpus[0].utilization == 1.0


def test_an_energy_counter_past_32_bits_is_not_taken_for_blank():
    assert parse_nvml(sample_with(total_energy_mj=0x7FFFFFF5)).gpus[0].energy_joules == pytest.approx(2147483.637)


def test_a_sample_without_a_list_of_gpus_is_malformed():
    with pytest.raises(MalformedBody, match="lists no GPUs"):
        parse_nvml(b'{"t": 1}')


def test_faults_caps_names_and_refusals_are_read():
    body = sample_with(
        power_default_limit_mw=700_000,
        ecc_uncorrected=2,
        remapped_rows={"uncorrected": 1, "pending": True, "failure": False},
        xids=[79, 0, None],
        processes=[{"pid": 7, "used_memory_bytes": 1, "name": "python3"}],
        process_utilization=None,
        errors={"power_mw": "Not Supported"},
    )
    (gpu,) = parse_nvml(body).gpus

    assert (gpu.power_default_limit_watts, gpu.ecc_uncorrected) == (700.0, 2.0)
    assert (gpu.remap_pending, gpu.remap_failed, gpu.xids) == (True, False, (79,))
    assert (gpu.process_names, gpu.process_sm) == ({7: "python3"}, None)
    assert gpu.withheld == {"power_mw": "Not Supported"}


def test_an_answered_list_without_processes_is_not_the_same_as_no_answer():
    assert parse_nvml(sample_with(process_utilization=[])).gpus[0].process_sm == {}
    assert parse_nvml(sample_with(process_utilization=None)).gpus[0].process_sm is None


@pytest.mark.parametrize(
    "card",
    [
        {"processes": [{"pid": pid} for pid in range(gpu.MOST_OF_A_CARD + 1)]},
        {"mig_instances": [{"processes": [{"pid": pid} for pid in range(gpu.MOST_OF_A_CARD + 1)]}]},
        {"mig_instances": [{}] * (gpu.MOST_PARTS + 1)},
        None,
    ],
    ids=["processes", "processes of an instance", "instances", "cards"],
)
def test_more_than_any_machine_has_is_refused(card: object):
    cards = [card] if card else [{}] * (gpu.MOST_CARDS + 1)
    with pytest.raises(MalformedBody, match="which no machine has"):
        parse_nvml(json.dumps({"gpus": cards}).encode())
    assert len(parse_nvml(json.dumps({"gpus": [{}] * gpu.MOST_CARDS}).encode()).gpus) == gpu.MOST_CARDS
