"""The part of a divided GPU (MIG) that a server works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from diagnostics.signals.device import DEVICE_HEADROOM
from diagnostics.window.view import as_seen_from, occupied
from diagnostics.window.window import Window
from diagnostics.wire.gpu import Gpu
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, explained, model_config
from tests.builders_machine import body, card_view, machine_window, processes

OWN, OTHER = 101, 900
STAGE = Stage(
    "m", rate=20, execution=0.02, config=model_config("m", groups=[{"kind": "KIND_GPU", "count": 1, "gpus": [0]}])
)


def part(instance: int, pid: int, sm: int | None) -> Mapping[str, object]:
    return {
        "uuid": f"MIG-{instance}",
        "gpu_instance": instance,
        "memory_total_bytes": 10 * 2**30,
        "memory_used_bytes": 2**30,
        "processes": [{"pid": pid, "used_memory_bytes": 2**29}],
        "gpm": None if sm is None else {"sm_util": sm, "graphics_util": sm},
    }


def divided(*parts: Mapping[str, object], tree: bool = True) -> Window:
    return machine_window(
        SyntheticTriton(models=(STAGE,), cpu_busy=None),
        gpus=lambda _: [{"mig_mode": 1, "power_mw": 200_000, "mig_instances": list(parts)}],
        hosts=(lambda _: processes(OWN)) if tree else None,
    )


def spots(window: Window) -> Sequence[str]:
    return [spot.what for spot in explained(window).blind_spots]


def test_the_part_with_a_process_of_the_server_is_its_own() -> None:
    window = divided(part(7, OWN, 30), part(9, OTHER, 99))
    (samples,) = card_view(window).gpu_series().values()

    assert {(gpu.instance, gpu.sm_active, gpu.memory_total_bytes) for gpu in samples} == {(7, 0.3, 10 * 2**30)}
    assert samples[0].power_watts == 200.0
    assert DEVICE_HEADROOM.read(card_view(window, model="m")).value == pytest.approx(0.7)


def test_a_full_part_of_somebody_else_says_nothing_of_the_server() -> None:
    window = divided(part(7, OTHER, 99), part(9, OTHER, 99))

    assert DEVICE_HEADROOM.read(card_view(window, model="m")).value is None
    assert "which part of GPU-0 this server works on" in spots(window)


def test_a_single_part_is_the_servers_where_processes_cannot_be_reported() -> None:
    window = divided(part(7, OTHER, 40), tree=False)

    assert DEVICE_HEADROOM.read(card_view(window, model="m")).value == pytest.approx(0.6)


def test_a_part_whose_activity_was_not_read_is_a_blind_spot() -> None:
    assert "how full this server's part of GPU-0 is" in spots(divided(part(7, OWN, None)))


def test_processes_on_two_parts_leave_it_open() -> None:
    parts = tuple(Gpu(index=0, instance=i, process_memory={pid: 1}) for i, pid in ((7, 1), (9, 2)))

    assert occupied([Gpu(index=0, parts=parts)], {1, 2}) is None


def test_a_whole_card_is_left_as_it_is() -> None:
    card = Gpu(index=0, sm_active=0.5)

    assert as_seen_from([card], ()) == [card]


@pytest.mark.parametrize("blank", ["9223372036854775792", None])
def test_blank_or_absent_profiling_fields_are_a_blind_spot(blank: str | None) -> None:
    rows = ['DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0"} 95']
    rows += [f'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="GPU-0"}} {blank}'] if blank else []
    pages = [body(BodyKind.DCGM, at, "".join(f"{row}\n" for row in rows)) for at in (0.0, 30.0, 60.0)]
    window = machine_window(SyntheticTriton(models=(STAGE,), cpu_busy=None), more=pages)

    assert "how full GPU-0 is" in spots(window)
