"""Waits that no counter of Triton holds, or that a phase holds which waits for something else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Expected, Fires, Unknown
from diagnostics.diagnosis.explanation import Verdict
from diagnostics.signals.callers import HANDLING_SECONDS
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.disk import IO_PER_LANE, IO_THREADS
from diagnostics.signals.dispersion import EXECUTION_DISPERSION
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.host import COPY_CPU, CPU_PER_LANE
from diagnostics.signals.settings import INSTANCES, PRESERVES_ORDER
from diagnostics.signals.signal import Signal
from diagnostics.signals.triton import ARRIVAL_RATE, REQUEST_RATE
from diagnostics.window.window import Window, window_of
from tests.builders import Stage, SyntheticTriton, chain, explained, host_body, model_config, view_of
from tests.builders_machine import SERVER_PID, START, machine_window, processes
from tests.builders_traces import Leg, ensemble_trace, export, exported
from tests.checks.stated import decided

SINGLE = "single-instance-serialization"


def firing(check: str) -> Mapping[Signal, float]:
    """Return what a check's first case that fires states."""
    return next(case.readings for case in catalogue()[check].cases if case.expect is Expected.FIRES)


@pytest.mark.parametrize("check", ["single-instance-serialization", "client-or-transport-bound", "bursty-arrivals"])
def test_responses_in_order_may_wait_for_each_other(check: str) -> None:
    stated = {**firing(check), INSTANCES: 4, ARRIVAL_RATE: 156}
    in_order, _ = decided(catalogue()[check], {**stated, PRESERVES_ORDER: 1})
    in_any, _ = decided(catalogue()[check], {**stated, PRESERVES_ORDER: 0})
    alone, _ = decided(catalogue()[check], {**stated, PRESERVES_ORDER: 1, INSTANCES: 1})

    assert isinstance(in_order, Unknown)
    assert in_order.signal == PRESERVES_ORDER.name
    assert isinstance(in_any, Fires)
    assert isinstance(alone, Fires)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, Unknown),
        ({PRESERVES_ORDER: 0}, Fires),
        ({EXECUTION_SECONDS: 0.02, EXECUTION_DISPERSION: 0.1}, Fires),
        ({EXECUTION_SECONDS: 0.02, EXECUTION_DISPERSION: 15}, Unknown),
        ({EXECUTION_SECONDS: 0.2, EXECUTION_DISPERSION: 0.1}, Unknown),
    ],
    ids=["nothing known", "in any order", "short and even executions", "long at times", "always long"],
)
@pytest.mark.parametrize("traced", [True, False])
def test_clients_without_configuration_may_wait_for_earlier_responses(
    known: Mapping[Signal, float], expected: type, *, traced: bool
) -> None:
    """Of 80 ms outside, half is more than 20/s · (0.02 s)² · 1.1 ÷ 2, and less than the other two. No span has it."""
    check, stated = "client-or-transport-bound", firing("client-or-transport-bound")
    seen = {signal: value for signal, value in stated.items() if traced or signal is not HANDLING_SECONDS}
    del seen[PRESERVES_ORDER]
    outcome, _ = decided(catalogue()[check], {**seen, REQUEST_RATE: 20, **known})

    assert isinstance(outcome, expected)
    assert not isinstance(outcome, Unknown) or outcome.signal == PRESERVES_ORDER.name


STAGE = Stage(
    "m",
    rate=10,
    input=0.01,
    execution=0.005,
    output=0.05,
    config=model_config("m", groups=[{"kind": "KIND_CPU", "count": 2}]),
)


@pytest.mark.parametrize(("cores", "found"), [(0.6, ["input-output-cost"]), (0.05, [])], ids=["copies", "waits"])
def test_phases_without_a_processor_are_no_copies(cores: float, found: list[str]) -> None:
    """Ten times 60 ms a second are 0.6 copies at once: they use that many processors, or wait for a disk."""
    window = machine_window(
        SyntheticTriton(models=(STAGE,), cpu_busy=None),
        hosts=lambda at: {**host_body(START + at, 0.3), **processes(SERVER_PID, cpu=lambda _: cores * at)},
    )

    assert COPY_CPU.read(view_of(window, "m")).value == pytest.approx(cores / 0.6)
    assert [one.check for one in explained(window).actionable] == found
    assert found or "I/O" in explained(window).next_measurement


def test_what_is_not_known_to_use_a_processor_is_not_named() -> None:
    window = machine_window(
        SyntheticTriton(models=(STAGE,), cpu_busy=None), hosts=lambda at: host_body(START + at, 0.3)
    )

    assert not explained(window).actionable
    assert "I/O" in explained(window).next_measurement


@pytest.mark.parametrize(
    ("stated", "said"),
    [({CPU_PER_LANE: 0.02, ON_GPU: 0}, True), ({CPU_PER_LANE: 0.9, ON_GPU: 0}, False), ({CPU_PER_LANE: 0.02}, False)],
    ids=["waits", "computes", "perhaps on a GPU"],
)
def test_what_an_instance_waits_for_may_be_as_slow_for_a_second_one(stated: Mapping[Signal, float], said: bool) -> None:
    """A database that was slow all along looks like a slow model; more instances are more callers."""
    outcome, _ = decided(catalogue()[SINGLE], {**firing(SINGLE), **stated})

    assert isinstance(outcome, Fires)
    assert outcome.suggestion is not None
    assert outcome.suggestion.prediction is not None
    assert ("all instances wait for" in outcome.suggestion.prediction.unless) is said


def _on_disk(io_threads: int, model: str = "m") -> Window:
    """Return one instance that is always busy, of whose processes so many threads wait for I/O at every sample."""
    stage = Stage("m", rate=19, queue=0.4, execution=0.05, config=model_config("m"))
    tree = [
        {"pid": SERVER_PID, "ppid": 1, "comm": "tritonserver", "model": None, "io_threads": 0},
        {"pid": 11, "ppid": SERVER_PID, "comm": "triton_python_b", "model": model, "io_threads": io_threads},
    ]

    def sample(at: float) -> Mapping[str, object]:
        used = [{**one, "cpu_seconds": 0.05 * at, "thread_count": 9, "stopped_threads": 0} for one in tree]
        return {**host_body(START + at, 0.1), "server_processes": used}

    return machine_window(SyntheticTriton(models=(stage,), cpu_busy=None), hosts=sample)


@pytest.mark.parametrize(("io_threads", "found"), [(0, ["single-instance-serialization"]), (1, [])])
def test_executions_that_wait_for_a_disk_are_no_lack_of_instances(io_threads: int, found: list[str]) -> None:
    explanation = explained(_on_disk(io_threads))

    assert [one.check for one in explanation.actionable] == found
    if not found:
        assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
        assert "executions of m wait for I/O" in explanation.reason
        assert "disk" in explanation.next_measurement


@pytest.mark.parametrize(("seconds", "named"), [(60, True), (10, False)], ids=["all along", "while a model loads"])
def test_waits_for_a_disk_that_do_not_last_are_no_sign_of_trouble(seconds: int, named: bool) -> None:
    healthy = Stage("m", rate=19, execution=0.02, config=model_config("m"))

    def sample(at: float) -> Mapping[str, object]:
        own = {"pid": SERVER_PID, "ppid": 1, "comm": "tritonserver", "cpu_seconds": 0.1 * at, "thread_count": 9}
        waits = {"io_threads": 1 if at < seconds else 0, "stopped_threads": 0}
        return {**host_body(START + at, 0.1), "server_processes": [{**own, **waits}]}

    found = explained(machine_window(SyntheticTriton(models=(healthy,), cpu_busy=None), hosts=sample, step=2.0))
    assert ("wait for I/O" in found.reason) is named
    assert named or found.verdict is Verdict.HEALTHY


def test_a_stub_of_another_model_that_waits_for_a_disk_is_not_this_ones_wait() -> None:
    assert IO_PER_LANE.read(view_of(_on_disk(1), "m")).value == pytest.approx(1 / (19 * 0.05), rel=0.1)
    assert IO_PER_LANE.read(view_of(_on_disk(1, "another"), "m")).value == 0


def test_more_threads_than_executions_that_wait_for_a_disk_hold_clients_up_as_well() -> None:
    """Of 0.08 s outside at 20 requests a second, half is as much as 0.8 threads in the state D."""
    stated = firing("client-or-transport-bound") | {REQUEST_RATE: 20}
    for threads, expected in ((0.74, Fires), (0.86, Unknown)):
        outcome, ledger = decided(catalogue()["client-or-transport-bound"], {**stated, IO_THREADS: threads})
        assert isinstance(outcome, expected)
        assert expected is Fires or "disk" in ledger.absent[IO_THREADS.name][0].fix


def _with_gaps(scheduling: Mapping[str, object], count: int) -> list[str]:
    """Return what is found of an ensemble with 50 ms between its stages, of which the first is scheduled so."""
    groups = [{"kind": "KIND_CPU", "count": count}]
    first = {**model_config("first", backend="onnxruntime", max_batch=8, groups=groups), **scheduling}
    members = (
        Stage("first", rate=10, execution=0.01, config=first),
        Stage("second", rate=10, execution=0.012, config=model_config("second", backend="onnxruntime")),
        Stage("video", rate=10, overhead=0.073, config=chain("video", "first", "second")),
    )
    stages = (Leg(model="first", compute=0.01), Leg(model="second", compute=0.012, gap=0.05))
    traced = [ensemble_trace(f"{n:032x}", at=0.5 * n + 0.1, stages=stages, name="video") for n in range(119)]
    scrapes = [*SyntheticTriton(models=members).scrapes(), exported(export(s for trace in traced for s in trace))]
    return [one.check for one in explained(window_of(scrapes)).actionable]


IN_ORDER = {"preserve_ordering": True}


@pytest.mark.parametrize(
    ("scheduling", "count", "found"),
    [
        ({"dynamic_batching": {}}, 4, ["ensemble-overhead"]),
        ({"dynamic_batching": IN_ORDER}, 4, []),
        ({"dynamic_batching": IN_ORDER}, 1, ["ensemble-overhead"]),
        ({"sequence_batching": {"oldest": IN_ORDER}}, 4, []),
    ],
    ids=["in any order", "in order", "one instance", "sequences in order"],
)
def test_time_between_stages_may_be_a_wait_for_earlier_responses(
    scheduling: Mapping[str, object], count: int, found: list[str]
) -> None:
    assert _with_gaps(scheduling, count) == found
