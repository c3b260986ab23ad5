"""Effects that step together with what is thought to drive them, and effects that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.signals.contrast import Contrast, SeriesInterval, contrasted, up_while
from diagnostics.signals.signal import Missing
from tests.builders import START, Stage, SyntheticTriton, chain, explained, host_body, model_config
from tests.builders_machine import machine_window, processes, working

ON_GPU = [{"kind": "KIND_GPU", "count": 1, "gpus": [0]}]
STUB, STRANGER = 101, 900
READS, STEP = 76, 2.0
SECONDS = (READS - 1) * STEP
# A request a second or two: 80 of them in a window in which the engine iterates two thousand times.
RATE, HIDDEN, ITERATION = 0.55, 2.0, 0.05
Pace = Callable[[float], float]


def during(first: float, last: float) -> Callable[[float], bool]:
    return lambda at: first <= at < last


THERE = during(60.0, 100.0)


def pieces(seconds: Callable[[int], float], events: float = 20.0, count: int = 40) -> list[SeriesInterval]:
    return [SeriesInterval(i, i + 1, events * seconds(i), events, 1.0) for i in range(count)]


def last_ten(start: float, end: float) -> bool | None:
    return True if start >= 30 else False if end <= 30 else None


def test_what_is_longer_while_the_driver_is_up_is_reported_with_its_interval() -> None:
    found = contrasted(pieces(lambda i: 0.2 if i >= 30 else 0.1), last_ten)

    assert isinstance(found, Contrast)
    value, low, high = found.difference
    assert value == pytest.approx(0.1)
    assert 0 < low < value < high
    assert found.part == pytest.approx(0.25)
    assert found.reading("x").value == pytest.approx(0.025)


def test_what_stays_as_it_is_speaks_against_the_driver() -> None:
    found = contrasted(pieces(lambda i: 0.1 + 0.001 * (i % 3)), last_ten)

    assert isinstance(found, Contrast)
    assert found.difference[2] < 0.2 * found.outside.mean


def test_a_wide_spread_leaves_a_difference_uncertain() -> None:
    found = contrasted(pieces(lambda i: 1.0 if i % 7 == 0 else 0.01), last_ten)

    assert isinstance(found, Contrast)
    assert found.difference[1] < 0 < found.difference[2]


def test_own_events_decide_whether_there_is_enough_to_compare() -> None:
    assert contrasted(pieces(lambda _: 0.1, events=2.9), last_ten) is Missing.TOO_FEW_EVENTS
    assert isinstance(contrasted(pieces(lambda _: 0.1, events=3.0), last_ten), Contrast)


def test_more_load_while_the_driver_is_up_explains_the_difference_as_well() -> None:
    more = [SeriesInterval(i, i + 1, 2.0, 40.0 if i >= 30 else 20.0, 1.0) for i in range(40)]

    assert contrasted(more, last_ten) is Missing.CONFLICTING
    assert isinstance(contrasted(more, last_ten, same_load=False), Contrast)


def test_samples_of_a_state_tell_when_it_is_up() -> None:
    when = up_while([(0.0, False), (1.0, False), (2.0, True), (3.0, True)], slack=0.1)

    assert (when(0.0, 1.0), when(1.0, 2.0), when(2.0, 3.0), when(9.0, 10.0)) == (False, None, True, None)


def engine_beside(
    pace: Pace, there: Callable[[float], bool], percent: int = 60, *, context: Callable[[float], int] = lambda _: 0
) -> Explanation:
    """Return what is said of an engine whose iterations take `pace` seconds, beside a stranger on its card."""

    def card(at: float) -> Mapping[str, object]:
        return working((STUB, 35), (STRANGER, percent)) if there(at) else working((STUB, 60))

    return engine_on(pace, card, lambda _: processes(STUB), context=context)


def engine_on(
    pace: Pace,
    card: Callable[[float], Mapping[str, object]],
    host: Callable[[float], Mapping[str, object]],
    *,
    context: Callable[[float], int] = lambda _: 0,
) -> Explanation:
    """Return what is said of an engine whose iterations take `pace` seconds, on such a card of such a host."""
    counted = [0.0]
    for read in range(READS):
        counted.append(counted[-1] + STEP / pace(read * STEP))

    def gauges(read: int) -> Iterable[str]:
        for kind, value in {"scheduled": 2, "waiting": 0, "max": 32, "context": context(read * STEP)}.items():
            yield f'nv_trt_llm_request_metrics{{model="llm",request_type="{kind}",version="1"}} {value}'
        yield f'nv_trt_llm_general_metrics{{model="llm",general_type="iteration_counter",version="1"}} {counted[read]}'

    llm = Stage("llm", rate=RATE, execution=0.0003, config=model_config("llm", groups=ON_GPU))
    pre = Stage("pre", rate=RATE, execution=0.001, config=model_config("pre"))
    chat = Stage("chat", rate=RATE, execution=0.0013, overhead=HIDDEN, config=chain("chat", "pre", "llm"))
    triton = SyntheticTriton(models=(chat, pre, llm), extra_metrics=gauges, interval=STEP, cpu_busy=None, gpu=None)
    return explained(machine_window(triton, reads=READS, gpus=lambda at: [card(at)], hosts=host))


RUNNING = 2


def tokens_counted(pace: Pace) -> Callable[[int], Iterable[str]]:
    """Return the pages of an engine that runs two requests, each of which gets a token in `pace` seconds."""
    made = [0.0]
    for read in range(READS):
        made.append(made[-1] + RUNNING * STEP / pace(read * STEP))

    def lines(read: int) -> Iterable[str]:
        yield f'vllm:num_requests_running{{model="llm",version="1"}} {RUNNING}'
        yield 'vllm:num_requests_waiting{model="llm",version="1"} 0'
        yield f'vllm:generation_tokens_total{{model="llm",version="1"}} {made[read]}'

    return lines


def tokens_timed(pace: Pace) -> Callable[[int], Iterable[str]]:
    """Return the pages of the same engine with a histogram of the times per token instead of their number."""
    counted = tokens_counted(pace)

    def lines(read: int) -> Iterable[str]:
        *gauges, made = counted(read)
        tokens = float(made.split()[-1])
        yield from gauges
        yield f'vllm:time_per_output_token_seconds_sum{{model="llm",version="1"}} {RUNNING * read * STEP}'
        yield f'vllm:time_per_output_token_seconds_count{{model="llm",version="1"}} {tokens}'

    return lines


def prompts(there: Callable[[float], bool]) -> Callable[[int], Iterable[str]]:
    """Return the counter of prompt tokens of an engine that reads twice as many for a while."""

    def lines(read: int) -> Iterable[str]:
        read_so_far = sum(2000.0 if there(one * STEP) else 1000.0 for one in range(read))
        yield f'vllm:prompt_tokens_total{{model="llm",version="1"}} {read_so_far}'

    return lines


Export = Callable[[Pace], Callable[[int], Iterable[str]]]


def tokens_beside(
    export: Export, pace: Pace, there: Callable[[float], bool], more: Callable[[int], Iterable[str]] = lambda _: ()
) -> Explanation:
    """Return what is said of an engine that tells of tokens and no iterations, beside a stranger on its card."""
    lines = export(pace)
    llm = Stage("llm", rate=RATE, execution=0.0003, config=model_config("llm", backend="vllm", groups=ON_GPU))
    pre = Stage("pre", rate=RATE, execution=0.001, config=model_config("pre"))
    chat = Stage("chat", rate=RATE, execution=0.0013, overhead=HIDDEN, config=chain("chat", "pre", "llm"))
    triton = SyntheticTriton(
        models=(chat, pre, llm),
        extra_metrics=lambda read: (*lines(read), *more(read)),
        interval=STEP,
        cpu_busy=None,
        gpu=None,
    )

    def card(at: float) -> Mapping[str, object]:
        return working((STUB, 35), (STRANGER, 60)) if there(at) else working((STUB, 60))

    return explained(machine_window(triton, reads=READS, gpus=lambda at: [card(at)], hosts=lambda _: processes(STUB)))


@pytest.mark.parametrize("export", [tokens_counted, tokens_timed])
class TestTokens:
    """Where an engine tells of no iterations, the time per token is that of one."""

    def test_that_take_twice_as_long_with_a_stranger_are_its_doing(self, export: Export) -> None:
        explanation = tokens_beside(export, lambda at: 2 * ITERATION if THERE(at) else ITERATION, THERE)

        assert [found.check for found in explanation.actionable] == ["gpu-contended-by-other-process"]

    def test_that_take_as_long_as_before_speak_against_it(self, export: Export) -> None:
        explanation = tokens_beside(export, lambda _: ITERATION, THERE)

        assert not explanation.actionable
        assert explanation.verdict is Verdict.HEALTHY

    def test_that_take_longer_at_another_time_are_a_slowdown_without_a_cause(self, export: Export) -> None:
        explanation = tokens_beside(export, lambda at: 2 * ITERATION if at < 50 else ITERATION, THERE)

        assert not explanation.actionable
        assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
        assert "took 2.0 times as long for" in explanation.reason

    def test_that_take_longer_for_more_prompts_need_no_other_reason(self, export: Export) -> None:
        explanation = tokens_beside(
            export, lambda at: 2 * ITERATION if THERE(at) else ITERATION, lambda _: False, prompts(THERE)
        )

        assert explanation.verdict is Verdict.HEALTHY


def test_iterations_that_double_with_a_stranger_are_its_doing_however_few_requests_end() -> None:
    explanation = engine_beside(lambda at: 2 * ITERATION if THERE(at) else ITERATION, THERE)

    assert [found.check for found in explanation.actionable] == ["gpu-contended-by-other-process"]
    assert explanation.actionable[0].subject.gpu == "GPU-0"
    assert str(STRANGER) in explanation.actionable[0].summary


def test_a_stranger_that_leaves_iterations_as_they_are_is_no_cause() -> None:
    explanation = engine_beside(lambda _: ITERATION, THERE)

    assert not explanation.actionable
    assert explanation.verdict is Verdict.HEALTHY


def test_iterations_that_double_at_another_time_are_not_the_strangers_doing() -> None:
    explanation = engine_beside(lambda at: 2 * ITERATION if at < 50 else ITERATION, THERE)

    assert not explanation.actionable
    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "took 2.0 times as long for 48 s" in explanation.reason


def test_iterations_that_are_longer_for_their_prompts_need_no_other_reason() -> None:
    explanation = engine_beside(
        lambda at: 2 * ITERATION if THERE(at) else ITERATION, lambda _: False, context=lambda at: int(THERE(at))
    )

    assert explanation.verdict is Verdict.HEALTHY


def test_a_stranger_that_comes_and_goes_is_compared_with_its_pauses() -> None:
    def comes(at: float) -> bool:
        return at % 40 >= 20

    explanation = engine_beside(lambda at: 2 * ITERATION if comes(at) else ITERATION, comes)

    assert [found.check for found in explanation.actionable] == ["gpu-contended-by-other-process"]


HOT, CAPPED, HIGHEST = 0x40, 0x4, 1980.0


def clocked(reason: int, there: Callable[[float], bool]) -> Callable[[float], Mapping[str, object]]:
    """Return a card whose power cap was lowered, and whose clock is at half of its highest for a reason for a while."""

    def card(at: float) -> Mapping[str, object]:
        clock = {"sm_clock_mhz": HIGHEST / 2 if there(at) else HIGHEST, "max_sm_clock_mhz": HIGHEST}
        cap = {"power_limit_mw": 300_000, "power_default_limit_mw": 700_000}
        return {**working((STUB, 60)), **clock, **cap, "throttle_reasons": reason if there(at) else 0}

    return card


def held_by_quota(there: Callable[[float], bool]) -> Callable[[float], Mapping[str, object]]:
    """Return a host whose cgroup is held back in six of ten periods of 100 ms for a while."""

    def host(at: float) -> Mapping[str, object]:
        held = sum(6 for second in range(int(at)) if there(second))
        stat = f"usage_usec {at * 1e6:.0f}\nnr_periods {10 * int(at)}\nnr_throttled {held}\nthrottled_usec 0\n"
        return {**host_body(START + at, 0.2), **processes(STUB), "cgroup_cpu_stat": stat}

    return host


@pytest.mark.parametrize(("reason", "what"), [(HOT, "heat"), (CAPPED, "a lowered power cap")])
def test_iterations_that_are_longer_just_while_the_clock_is_held_down_are_so_for_it(reason: int, what: str) -> None:
    card = clocked(reason, THERE)
    explanation = engine_on(lambda at: 1.8 * ITERATION if THERE(at) else ITERATION, card, lambda _: processes(STUB))

    assert [found.check for found in explanation.actionable] == ["gpu-throttled"]
    assert explanation.actionable[0].summary.startswith(what)
    assert "up to" not in explanation.actionable[0].summary


@pytest.mark.parametrize("reason", [HOT, CAPPED])
def test_iterations_that_last_as_long_at_a_lower_clock_lose_nothing_to_it(reason: int) -> None:
    explanation = engine_on(lambda _: ITERATION, clocked(reason, THERE), lambda _: processes(STUB))

    assert not explanation.actionable
    assert "gpu-throttled" not in {found.check for found in explanation.findings}


def test_iterations_that_are_longer_just_while_a_quota_holds_the_server_back_wait_for_processors() -> None:
    explanation = engine_on(
        lambda at: 2 * ITERATION if THERE(at) else ITERATION, lambda _: working((STUB, 60)), held_by_quota(THERE)
    )

    assert [found.check for found in explanation.actionable] == ["host-cpu-starved"]
    assert explanation.actionable[0].subject.model == "llm"


def test_iterations_that_do_not_step_with_a_quota_lose_nothing_to_it() -> None:
    explanation = engine_on(lambda _: ITERATION, lambda _: working((STUB, 60)), held_by_quota(THERE))

    assert explanation.verdict is Verdict.HEALTHY
