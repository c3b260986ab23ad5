"""Processors and memory of the server's machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from diagnostics.signals import host
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.signal import Missing
from diagnostics.window.window import Window
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, explained, host_body, model_config, view_of
from tests.builders_machine import START, machine_window, processes

STUBS = (11, 12, 13, 14)


def starved(
    cpu_per_stub: float,
    *without: BodyKind,
    busy: float = 0.99,
    queue: float = 0.5,
    pressure: float = 0.9,
    **more: object,
) -> Window:
    """Return a stage of four busy instances on a host this busy, whose stubs use so much of a core each."""
    stage = Stage(
        "m",
        rate=40,
        execution=0.098,
        queue=queue,
        config=model_config("m", groups=[{"kind": "KIND_CPU", "count": 4}]),
    )

    def sample(at: float) -> Mapping[str, object]:
        return {
            **host_body(START + at, busy, cores=2),
            **processes(*STUBS, cpu=lambda _: cpu_per_stub * at),
            "pressure_cpu": f"some avg10=0 avg60=0 avg300=0 total={at * pressure * 1e6:.0f}\n",
            **more,
        }

    return machine_window(SyntheticTriton(models=(stage,), cpu_busy=None).without(*without), hosts=sample)


def quota(share_held: float, cores: float) -> Callable[[float], Mapping[str, object]]:
    return lambda at: {
        "cgroup_cpu_max": f"{cores * 1e5:.0f} 100000\n",
        "cgroup_cpu_stat": f"usage_usec {at * cores * 1e6:.0f}\nnr_periods {at * 10:.0f}\n"
        f"nr_throttled {at * 10 * share_held:.0f}\nthrottled_usec 0\n",
    }


def actionable(window: Window) -> list[str]:
    return [finding.check for finding in explained(window).actionable]


@pytest.mark.parametrize("without", [(), (BodyKind.STATISTICS,)])
def test_the_processors_of_an_executing_instance_are_those_of_the_busiest_stubs(without: tuple[BodyKind, ...]) -> None:
    found = host.CPU_PER_LANE.read(view_of(starved(0.3, *without), "m"))

    assert found.value == pytest.approx(1.2 / 3.92, rel=0.05)
    assert found.estimated


def test_stages_that_share_too_few_cores_are_starved() -> None:
    assert actionable(starved(0.3)) == ["host-cpu-starved"]


def test_of_two_reasons_that_are_enough_only_the_one_that_holds_is_evidence() -> None:
    (found,) = explained(starved(0.3, **quota(0.0, 2.0)(0.0))).actionable

    assert "host_cpu_busy" in {line.signal for line in found.evidence}
    assert "cpu_throttled_share" not in {line.signal for line in found.evidence}


def test_instances_that_sleep_on_a_host_that_others_fill_are_not() -> None:
    assert "host-cpu-starved" not in actionable(starved(0.01))


def test_a_busy_host_on_which_nobody_waits_does_its_work() -> None:
    assert actionable(starved(0.3, queue=0.0)) == []


def test_a_busy_host_without_pressure_starves_nobody() -> None:
    assert "host-cpu-starved" not in actionable(starved(0.3, pressure=0.02))


def test_a_full_quota_is_a_full_host() -> None:
    stage = Stage("m", rate=1)
    window = machine_window(
        SyntheticTriton(models=(stage,), cpu_busy=None),
        hosts=lambda at: {**host_body(START + at, 0.1, cores=64), **quota(0.6, 2.0)(at), **processes(*STUBS)},
    )

    assert HOST_CPU_BUSY.read(view_of(window, None, None)).value == pytest.approx(1.0)
    assert host.CPU_THROTTLED.read(view_of(window, None, None)).value == pytest.approx(0.6, abs=0.02)


def test_a_cpuset_is_a_limit_too() -> None:
    window = machine_window(
        SyntheticTriton(models=(Stage("m", rate=1),), cpu_busy=None),
        hosts=lambda at: {
            **host_body(START + at, 0.1, cores=64),
            **processes(11, 12, cpu=lambda _: 0.95 * at),
            "server_cores": 2,
        },
    )

    assert HOST_CPU_BUSY.read(view_of(window, None, None)).value == pytest.approx(0.95)


def test_without_samples_of_the_server_nothing_is_stated_of_its_processors() -> None:
    view = view_of(SyntheticTriton(models=(Stage("m", rate=1),), cpu_busy=None).window(), "m")

    assert host.CPU_PER_LANE.read(view).missing is Missing.NOT_EXPORTED
    assert host.CPU_THROTTLED.read(view).missing is Missing.NOT_EXPORTED


def grown(rss: Callable[[float], float], minutes: float = 20) -> Window:
    triton = SyntheticTriton(models=(Stage("m", rate=1),), cpu_busy=None, interval=30.0)
    return machine_window(triton, reads=round(minutes * 2) + 1, step=30.0, hosts=lambda at: processes(11, rss=rss(at)))


def growth(rss: Callable[[float], float], minutes: float = 20) -> float | Missing | None:
    found = host.MEMORY_GROWTH.read(view_of(grown(rss, minutes), None, None))
    return found.value if found.missing is None else found.missing


def test_memory_that_goes_on_growing_has_a_slope() -> None:
    assert growth(lambda at: 1e9 + 1e5 * at) == pytest.approx(1e5, rel=0.1)


@pytest.mark.parametrize(
    "rss",
    [
        lambda _: 1e9,
        lambda at: 1e9 + min(at, 300) * 1e6,
        lambda at: 1e9 if at < 700 else 3e9,
        lambda at: 1e9 + 1e8 * (at % 120),
    ],
    ids=["flat", "settles", "one step", "breathes"],
)
def test_memory_that_settles_steps_or_breathes_does_not(rss: Callable[[float], float]) -> None:
    assert growth(rss) == 0.0


def test_a_short_window_cannot_tell_growth_from_settling() -> None:
    assert growth(lambda at: 1e9 + 1e6 * at, minutes=5) is Missing.TOO_FEW_EVENTS


def test_a_clock_that_ticks_coarsely_was_not_set() -> None:
    """Most samples differ from the one before by no time that is worth the name."""

    def sample(at: float) -> Mapping[str, object]:
        pressed = f"some avg10=0 avg60=0 avg300=0 total={at * 0.1 * 1e6:.0f}\n"
        shown = START + at // 20 * 20 + at * 1e-4
        return {**host_body(START + at, 0.3, cores=8), "t": shown, "pressure_cpu": pressed}

    stage = Stage("m", rate=40, execution=0.01, config=model_config("m"))
    window = machine_window(SyntheticTriton(models=(stage,), cpu_busy=None), hosts=sample)

    assert host.CPU_PRESSURE.read(view_of(window, "m")).value == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("jump", [0.0, 3.0, -3.0, 600.0])
def test_a_clock_that_is_set_leaves_the_share_of_a_quota_as_it_was(jump: float) -> None:
    def sample(at: float) -> Mapping[str, object]:
        shown = START + at + (jump if at > 10.0 else 0.0)
        return {**host_body(START + at, 0.3, cores=8), **quota(0.5, 2.0)(at), "t": shown, "pressure_cpu": pressed(at)}

    def pressed(at: float) -> str:
        return f"some avg10=0 avg60=0 avg300=0 total={at * 0.5 * 1e6:.0f}\n"

    stage = Stage("m", rate=40, execution=0.01, config=model_config("m"))
    window = machine_window(SyntheticTriton(models=(stage,), cpu_busy=None), hosts=sample)
    whole = replace(view_of(window, "m"), end=window.end + max(jump, 0.0))

    assert HOST_CPU_BUSY.read(whole).value == pytest.approx(1.0, abs=0.02)
    assert host.CPU_PRESSURE.read(whole).value == pytest.approx(0.5, abs=0.01)
