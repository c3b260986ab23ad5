"""Executions that get longer just while the server does not get its processors, and executions that do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.window.window import Window
from tests.builders import START, Counts, Stage, SyntheticTriton, explained, host_body, model_config
from tests.builders_machine import machine_window

READS, STEP, RATE = 61, 2.0, 12.0
SLOW, FAST = 0.05, 0.03
PERIODS = 10.0  # a second: those of cgroup v2 last 100 ms

Host = Callable[[float], Mapping[str, object]]


def short(at: float) -> bool:
    return 40 <= at < 70


def grown(rate: float, at: float) -> float:
    """Return what a counter reads that grows by so much a second while the server is short of processors."""
    return rate * min(max(at - 40, 0.0), 30.0)


def quota(at: float) -> Mapping[str, object]:
    """Return a sample of a cgroup whose quota holds it back in six of ten periods for a while."""
    return {
        **host_body(START + at, 0.2, cores=8),
        "cgroup_cpu_max": "200000 100000\n",
        "cgroup_cpu_stat": f"usage_usec {at * 1e6:.0f}\nnr_periods {at * PERIODS:.0f}\n"
        f"nr_throttled {grown(0.6 * PERIODS, at):.0f}\nthrottled_usec 0\n",
    }


def stolen(at: float) -> Mapping[str, object]:
    """Return a sample of a virtual machine whose hypervisor gives a part of its processors to others for a while."""
    steal = grown(0.4 * 8 * 100, at)
    jiffies = {"user": 0.2 * 800 * at, "idle": 0.8 * 800 * at - steal, "steal": steal}
    return {"t": START + at, "cores": 8, "clk_tck": 100, "cpu_jiffies": jiffies}


def queued(at: float) -> Mapping[str, object]:
    """Return a sample of a stub that is runnable without a processor for half of the time for a while."""
    stub = {"pid": 11, "ppid": 1, "comm": "triton_python_b", "model": "tower", "cpu_seconds": 0.3 * at}
    return {**host_body(START + at, 0.2, cores=8), "server_processes": [{**stub, "run_delay_seconds": grown(0.5, at)}]}


def window_of(host: Host, seconds: Callable[[float], float], rate: Callable[[float], float] = lambda _: RATE) -> Window:
    """Return the window of one stage whose executions take `seconds` at a time, at `rate` requests a second."""
    requests, spent = [100 * RATE], [100 * RATE * FAST]
    for read in range(1, READS):
        at = (read - 0.5) * STEP
        requests.append(requests[-1] + rate(at) * STEP)
        spent.append(spent[-1] + rate(at) * STEP * seconds(at))

    def counted(read: int, rows: dict[tuple[str, str], Counts]) -> dict[tuple[str, str], Counts]:
        count, work = requests[read], spent[read]
        row = Counts(
            requests=count, items=count, executions=count, infer=work, seconds=work, batches={1: (count, work)}
        )
        return dict.fromkeys(rows, row)

    stage = Stage("tower", rate=RATE, execution=FAST, config=model_config("tower"))
    return machine_window(
        SyntheticTriton(models=(stage,), interval=STEP, cpu_busy=None, alter=counted), reads=READS, hosts=host
    )


def reported(host: Host, seconds: Callable[[float], float]) -> Explanation:
    return explained(window_of(host, seconds))


@pytest.mark.parametrize("host", [quota, stolen, queued])
def test_executions_that_are_longer_just_while_processors_are_kept_from_the_server_wait_for_them(host: Host) -> None:
    (found,) = reported(host, lambda at: SLOW if short(at) else FAST).actionable

    assert found.check == "host-cpu-starved"
    assert found.impact.seconds_per_request == pytest.approx((SLOW - FAST) / 4, rel=0.2)


@pytest.mark.parametrize("host", [quota, stolen, queued])
@pytest.mark.parametrize(
    "seconds", [lambda _: FAST, lambda at: SLOW if at < 30 else FAST], ids=["steady", "longer at another time"]
)
def test_executions_that_do_not_step_with_the_processors_lose_nothing_to_them(
    host: Host, seconds: Callable[[float], float]
) -> None:
    assert "host-cpu-starved" not in {one.check for one in reported(host, seconds).actionable}


def test_executions_that_are_longer_at_a_higher_load_may_be_so_by_themselves() -> None:
    window = window_of(quota, lambda at: SLOW if short(at) else FAST, lambda at: 1.6 * RATE if short(at) else RATE)

    assert "host-cpu-starved" not in {one.check for one in explained(window).actionable}


def test_executions_that_are_longer_for_a_while_are_named_where_nothing_tells_why() -> None:
    def calm(at: float) -> Mapping[str, object]:
        return host_body(START + at, 0.2, cores=8)

    explanation = explained(window_of(calm, lambda at: 3 * FAST if short(at) else FAST))

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "executions of tower took 3.0 times as long for 30 s" in explanation.reason
    assert "trace some requests" in explanation.next_measurement


def test_executions_that_are_longer_for_a_while_under_more_requests_are_not() -> None:
    window = window_of(quota, lambda at: 3 * FAST if short(at) else FAST, lambda at: 1.6 * RATE if short(at) else RATE)

    assert "took 3.0 times" not in explained(window).reason
