"""Nothing is healthy where some requests take far longer than most, whatever the means say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.window.window import window_of
from tests.builders import Stage, SyntheticTriton, chain, explained, model_config
from tests.builders_traffic import Did, sent, story_scrapes

# The mean of half the requests at 10 ms and a tenth at 200 ms.
MEAN = 0.03
ONE = Stage("m", rate=20, execution=MEAN, config=model_config("m"))


def summarised(**seconds: Sequence[float]) -> Callable[[int], Iterable[str]]:
    """Return lines of summaries: of each model the median of requests and executions, and how long some are."""

    def lines(number: int) -> Iterable[str]:
        for model, (typical, slow) in seconds.items():
            for family in ("request", "compute_infer"):
                name, own = f"nv_inference_{family}_summary_us", f'model="{model}",version="1"'
                yield f"{name}_count{{{own}}} {100 * number}"
                yield f'{name}{{{own},quantile="0.5"}} {typical * 1e6:.0f}'
                yield from (f'{name}{{{own},quantile="{q}"}} {slow * 1e6:.0f}' for q in ("0.95", "0.99"))

    return lines


def summary_of(typical: float, slow: float, stage: Stage = ONE, **more: object) -> Explanation:
    lines = summarised(m=(typical, slow))
    return SyntheticTriton(models=(stage,), extra_metrics=lines, **more).explain()  # type: ignore[arg-type]


def test_requests_of_which_one_in_twenty_stalls_are_never_healthy() -> None:
    explanation = summary_of(0.01, 0.2)

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "one request in twenty to m takes 200 ms or more" in explanation.reason
    assert "executions of m take as long" in explanation.reason
    assert "trace all requests" in explanation.next_measurement


@pytest.mark.parametrize(("factor", "verdict"), [(0.93, Verdict.HEALTHY), (1.07, Verdict.NO_CLEAR_CAUSE)])
def test_times_that_vary_as_random_work_does_are_healthy(factor: float, verdict: Verdict) -> None:
    assert summary_of(0.01, 0.06 * factor).verdict is verdict


def test_a_summary_that_the_windows_own_mean_denies_is_of_another_time() -> None:
    """It holds the last minute: also the cold start before a short window."""
    assert summary_of(0.01, 3.0, replace(ONE, execution=0.0102)).verdict is Verdict.HEALTHY


def test_tails_of_a_few_milliseconds_are_not_worth_a_change() -> None:
    assert summary_of(0.0005, 0.02, replace(ONE, execution=0.004)).verdict is Verdict.HEALTHY


def test_requests_of_different_sizes_take_different_times() -> None:
    batches, each = {1: 0.9, 64: 0.1}, {1: 0.01, 64: 0.2}
    sizes = replace(ONE, execution=each, batches=batches, client_batch=1, config=model_config("m", max_batch_size=64))

    assert summary_of(0.01, 0.2, sizes).verdict is Verdict.HEALTHY


def test_the_stage_of_an_ensemble_that_stalls_is_named() -> None:
    stages = [Stage(name, rate=20, execution=MEAN, config=model_config(name)) for name in ("calm", "stalls")]
    whole = Stage("whole", rate=20, overhead=2 * MEAN, config=chain("whole", "calm", "stalls"))
    lines = summarised(whole=(0.02, 0.3), calm=(0.01, 0.012), stalls=(0.01, 0.29))
    explanation = SyntheticTriton(models=(*stages, whole), extra_metrics=lines).explain()

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "to whole takes 300 ms or more" in explanation.reason
    assert "executions of stalls take as long" in explanation.reason
    assert "calm" not in explanation.reason


def test_stages_that_each_stall_for_few_requests_are_never_healthy() -> None:
    """Most requests meet one stall or another: their own times are long and alike."""
    names = ("a", "b", "c", "d")
    stages = [Stage(name, rate=20, execution=MEAN, config=model_config(name)) for name in names]
    whole = Stage("whole", rate=20, overhead=4 * MEAN, config=chain("whole", *names))
    lines = summarised(whole=(0.1, 0.4), **dict.fromkeys(names, (0.01, 0.3)))
    explanation = SyntheticTriton(models=(*stages, whole), extra_metrics=lines).explain()

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "some executions of a, b, c and 1 more take far longer than most" in explanation.reason
    assert "120 ms of each request to whole, 40 ms if each took as long as most" in explanation.reason


@pytest.mark.parametrize(("other", "stops"), [(0.34, True), (0.5, False), (0.06, False)])
def test_models_that_are_all_longer_by_one_time_may_stop_together(other: float, *, stops: bool) -> None:
    stages = [Stage(name, rate=20, execution=3 * MEAN, config=model_config(name)) for name in ("a", "b", "c")]
    lines = summarised(a=(0.01, 0.31), b=(0.03, 0.33), c=(0.05, other))
    explanation = SyntheticTriton(models=tuple(stages), extra_metrics=lines).explain()

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert ("nr_throttled" in explanation.next_measurement) is stops


def test_models_that_a_slow_one_may_call_are_looked_at_with_it() -> None:
    others = [replace(ONE, name=name, config=model_config(name)) for name in ("leaf", "steady")]
    lines = summarised(m=(0.01, 0.2), leaf=(0.004, 0.19), steady=(0.03, 0.035))
    caller = replace(ONE, execution=3 * MEAN)
    explanation = SyntheticTriton(models=(caller, *others), extra_metrics=lines).explain()

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert len(explanation.symptoms) == 1
    assert "executions of leaf take as long at times" in explanation.next_measurement


def story_of(infers: Sequence[float], *more: object) -> Explanation:
    story = {("m", "1"): [Did(requests=20, seconds=infer, infer=infer) for infer in infers]}
    return explained(window_of([*story_scrapes(story, configs={"m": model_config("m")}), *more]))  # type: ignore[list-item]


def test_reads_alone_show_executions_that_are_long_at_times() -> None:
    steady = story_of([0.02] * 18)
    stalling = story_of([0.02 * (6 if at % 3 == 1 else 1) for at in range(18)])

    assert steady.verdict is Verdict.HEALTHY
    assert stalling.verdict is Verdict.NO_CLEAR_CAUSE
    assert "some executions of m take far longer than most" in stalling.reason


def test_clients_show_a_tail_that_no_read_does() -> None:
    """Each read holds as many long executions as the others do: two of seven instances are ten times slower."""
    moments = [0.1 * number for number in range(360)]
    record = sent(moments, [0.2 if number % 7 in (0, 3) else 0.02 for number in range(360)])
    explanation = story_of([0.08] * 18, record)

    assert story_of([0.08] * 18).verdict is Verdict.HEALTHY
    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "one request in twenty to m takes 200 ms" in explanation.reason


@pytest.mark.parametrize(("count", "in_order"), [(4, True), (1, False)], ids=["several instances", "one instance"])
def test_long_executions_hold_back_the_answers_of_later_requests(count: int, *, in_order: bool) -> None:
    """One instance answers in order anyway; of several, those behind a long execution wait for it, in no counter."""
    groups = [{"kind": "KIND_CPU", "count": count}]
    config = {**model_config("m", groups=groups), "dynamic_batching": {"preserve_ordering": True}}
    moments = [0.1 * number for number in range(360)]
    record = sent(moments, [0.4 if number % 10 in (0, 1, 2) else 0.02 for number in range(360)])
    story = {("m", "1"): [Did(requests=20, seconds=0.05, infer=0.05)] * 18}
    explanation = explained(window_of([*story_scrapes(story, configs={"m": config}), record]))

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    following = [one.next_measurement for one in explanation.symptoms]
    assert len(following) >= 2
    assert all(("preserve_ordering" in text) is in_order for text in following)


@pytest.mark.parametrize(("slow", "found"), [(0.7, []), (0.08, ["single-instance-serialization"])])
def test_few_reads_name_no_lack_of_instances_where_some_executions_are_long(slow: float, found: list[str]) -> None:
    """Four reads do not show by how much executions vary; Triton's summaries do."""
    stage = replace(ONE, rate=15, execution=0.06, queue=1.5)
    triton = SyntheticTriton(models=(stage,), interval=15.0, extra_metrics=summarised(m=(0.02, slow)))

    assert [one.check for one in triton.explain(4).actionable] == found
