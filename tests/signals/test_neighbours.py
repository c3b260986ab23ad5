"""Strangers and neighbours on a card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Verdict
from diagnostics.signals import neighbours
from diagnostics.signals.signal import Missing
from diagnostics.window.window import Window
from tests.builders import Counts, Stage, SyntheticTriton, explained, model_config
from tests.builders_machine import card_view, machine_window, processes, working

ON_GPU = [{"kind": "KIND_GPU", "count": 1, "gpus": [0]}]
STUB, STRANGER, CHILD = 101, 900, 102
STAGE = Stage("m", rate=20, execution=0.02, config=model_config("m", groups=ON_GPU))


def slower_after(read: int, by: float) -> SyntheticTriton:
    """Return a server whose requests take `by` seconds longer from a read on."""

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Mapping[tuple[str, str], Counts]:
        late = max(number - read, 0) * 5.0 * STAGE.rate * by
        row = rows["m", "1"]
        batches = {1: (row.batches[1][0], row.batches[1][1] + late)}
        return {("m", "1"): replace(row, infer=row.infer + late, seconds=row.seconds + late, batches=batches)}

    return SyntheticTriton(models=(STAGE,), alter=alter, cpu_busy=None)


def shared(since: float = 30.0, percent: int = 80, pid: int = STRANGER, by: float = 0.02, tree: bool = True) -> Window:
    """Return a window in which another process works from a time on, and requests take longer from then on."""

    def gpus(at: float) -> list[Mapping[str, object]]:
        return [working((STUB, 20), (pid, percent)) if at >= since else working((STUB, 20))]

    return machine_window(
        slower_after(int(since / 5), by),
        gpus=gpus,
        hosts=(lambda _: processes(STUB, CHILD)) if tree else None,
    )


def test_the_share_of_a_process_outside_of_the_tree_is_foreign() -> None:
    view = card_view(shared())

    assert neighbours.FOREIGN_SHARE.read(view).value == pytest.approx(0.4, abs=0.02)
    assert neighbours.FOREIGN_PROCESS.read(view).value == STRANGER


def test_the_servers_own_stubs_are_not_foreign() -> None:
    assert neighbours.FOREIGN_SHARE.read(card_view(shared(pid=CHILD))).value == 0.0


def test_a_process_seen_twice_may_be_a_stub_between_two_looks() -> None:
    window = machine_window(
        SyntheticTriton(models=(STAGE,), cpu_busy=None),
        gpus=lambda at: [working((STUB, 20), (STRANGER, 90)) if at in (30, 31) else working((STUB, 20))],
        hosts=lambda _: processes(STUB),
    )

    assert neighbours.FOREIGN_SHARE.read(card_view(window)).value == 0.0


def test_without_the_servers_processes_nobody_can_be_called_foreign() -> None:
    assert neighbours.FOREIGN_SHARE.read(card_view(shared(tree=False))).missing is Missing.NOT_EXPORTED


def test_another_process_namespace_is_reported_by_none_of_the_servers_processes_being_there() -> None:
    window = machine_window(
        SyntheticTriton(models=(STAGE,), cpu_busy=None),
        gpus=lambda _: [working((70_001, 50), (70_002, 40))],
        hosts=lambda _: processes(STUB),
    )

    assert neighbours.FOREIGN_SHARE.read(card_view(window)).missing is Missing.CONFLICTING


def test_behind_mps_processes_cannot_be_distinguished() -> None:
    card = {**working((STUB, 10), (STRANGER, 80))}
    card["processes"] = [{"pid": STUB}, {"pid": STRANGER, "name": "nvidia-cuda-mps-server"}]
    window = machine_window(
        SyntheticTriton(models=(STAGE,), cpu_busy=None), gpus=lambda _: [card], hosts=lambda _: processes(STUB)
    )

    assert neighbours.FOREIGN_SHARE.read(card_view(window)).missing is Missing.CONFLICTING


def test_what_requests_lose_is_their_time_with_the_stranger_less_their_time_without() -> None:
    found = neighbours.FOREIGN_EXCESS_REQUEST.read(card_view(shared(), model="m"))

    assert found.value == pytest.approx(0.01, rel=0.1)  # 20 ms for half of the window


def test_more_requests_of_its_own_at_that_time_are_no_proof() -> None:
    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Mapping[tuple[str, str], Counts]:
        after = STAGE.after(100 + number * 5 + max(number - 6, 0) * 5)
        return {("m", "1"): after}

    window = machine_window(
        SyntheticTriton(models=(STAGE,), alter=alter, cpu_busy=None),
        gpus=lambda at: [working((STUB, 20), (STRANGER, 80)) if at >= 30 else working((STUB, 20))],
        hosts=lambda _: processes(STUB),
    )

    assert neighbours.FOREIGN_EXCESS_REQUEST.read(card_view(window, model="m")).missing is Missing.CONFLICTING


def test_a_stranger_that_slows_requests_is_the_first_finding_and_names_its_process() -> None:
    explanation = explained(shared(by=0.02, percent=80))

    assert [finding.check for finding in explanation.actionable] == ["gpu-contended-by-other-process"]
    assert str(STRANGER) in explanation.actionable[0].summary
    assert 0 < explanation.actionable[0].impact.share_of_latency <= 1


def test_a_stranger_that_slows_nobody_is_no_finding() -> None:
    assert explained(shared(by=0.0)).actionable == ()


@pytest.mark.parametrize(
    ("own", "stranger", "verdict"),
    [
        pytest.param(20, 40, Verdict.NO_CLEAR_CAUSE, id="half of each execution is not the server's kernels"),
        pytest.param(38, 40, Verdict.HEALTHY, id="the server's kernels fill its executions"),
        pytest.param(20, 8, Verdict.HEALTHY, id="it takes less than a tenth"),
    ],
)
def test_a_stranger_that_never_rests_is_no_cause_and_only_harmless_where_nothing_can_be_lost_to_it(
    own: int, stranger: int, verdict: Verdict
) -> None:
    window = machine_window(
        slower_after(0, 0.0),
        gpus=lambda _: [working((STUB, own), (STRANGER, stranger))],
        hosts=lambda _: processes(STUB),
    )
    explanation = explained(window)

    assert (explanation.verdict, explanation.actionable) == (verdict, ())
    named = [sign.text for sign in explanation.symptoms if str(STRANGER) in sign.text]
    assert len(named) == (verdict is Verdict.NO_CLEAR_CAUSE)


def bursts(batch_slows: float) -> SyntheticTriton:
    """Return a model beside a batch job of another client that works in every second stretch of 20 s."""
    job = Stage("job", rate=4, execution=0.2, config=model_config("job", groups=ON_GPU))

    def active(seconds: float) -> float:
        full, rest = divmod(seconds, 40.0)
        return full * 20.0 + min(rest, 20.0)

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Mapping[tuple[str, str], Counts]:
        on = active(number * 5.0)
        late = on * STAGE.rate * batch_slows
        row = rows["m", "1"]
        batches = {1: (row.batches[1][0], row.batches[1][1] + late)}
        mine = replace(row, infer=row.infer + late, seconds=row.seconds + late, batches=batches)
        return {("m", "1"): mine, ("job", "1"): job.after(on)}

    return SyntheticTriton(models=(STAGE, job), alter=alter, cpu_busy=None)


def test_a_model_is_slower_while_its_neighbour_works() -> None:
    view = card_view(bursts(0.03).window(reads=33), model="m", gpu=None)

    assert neighbours.NEIGHBOUR_LANES.read(view).value == pytest.approx(0.4, abs=0.05)
    assert neighbours.NEIGHBOUR_EXCESS_COMPUTE.read(view).value == pytest.approx(0.015, rel=0.1)


def test_a_neighbour_that_takes_the_cards_time_is_found() -> None:
    window = machine_window(bursts(0.03), reads=33, gpus=lambda at: [working((STUB, 99 if at % 40 < 20 else 30))])
    actionable = explained(window).actionable

    assert [(finding.check, finding.subject.model) for finding in actionable] == [
        ("gpu-contended-by-colocated-model", "m")
    ]


def test_a_neighbour_on_a_card_with_time_for_both_is_no_finding() -> None:
    window = machine_window(bursts(0.03), reads=33, gpus=lambda _: [working((STUB, 40))])

    assert "gpu-contended-by-colocated-model" not in {finding.check for finding in explained(window).actionable}
