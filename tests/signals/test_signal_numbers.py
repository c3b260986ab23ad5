"""Either side of each number that a signal decides by: a tenth away from it the answers differ."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from statistics import stdev

import pytest

from diagnostics.signals import host
from diagnostics.signals.arrivals import BURST_SIZE, CROWDED_SECONDS, ArrivalBin, dispersion
from diagnostics.signals.callers import OUTSIDE_SECONDS
from diagnostics.signals.device import GPU_AT_LIMIT, DeviceLoad
from diagnostics.signals.engine_iterations import ENGINE_SECONDS
from diagnostics.signals.engine_samples import mean_over
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.lifecycle import COLD_COMPUTE_SECONDS, COLD_SLOWDOWN
from diagnostics.signals.neighbours import FOREIGN_STAY
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Missing, Reading
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_RATE
from diagnostics.signals.versions import VERSION_SLOWDOWN
from diagnostics.units import Unit
from diagnostics.window.window import Window, window_of
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, model_config, view_of
from tests.builders_machine import card_view, machine_window, processes, working
from tests.builders_traffic import Did, reported, sent, story_scrapes

KEY = ("m", "1")


def queue_of(requests: int) -> Reading:
    return QUEUE_SECONDS.read(view_of(reported({KEY: [Did(requests=requests, queue=0.1)]}), "m"))


def test_a_mean_needs_five_events_and_is_an_estimate_below_thirty() -> None:
    assert queue_of(4).missing is Missing.TOO_FEW_EVENTS
    assert queue_of(5).value == pytest.approx(0.1)
    assert queue_of(27).estimated
    assert not queue_of(30).estimated


def test_intervals_are_those_of_nineteen_cases_in_twenty() -> None:
    """Of a Poisson count of 400 and of times as spread as their mean: ± 1.96 standard deviations."""
    story = reported({KEY: [Did(requests=400, queue=0.1)]}, interval=10.0)
    rate, queue = REQUEST_RATE.read(view_of(story, "m")), QUEUE_SECONDS.read(view_of(story, "m"))
    reads = mean_over([0.4, 0.5, 0.6] * 12, Unit.RATIO)

    assert [rate.low, rate.high] == pytest.approx([36.08, 43.92], abs=0.01)
    assert [queue.low, queue.high] == pytest.approx([0.0902, 0.1098])
    assert (reads.high or 0) - (reads.value or 0) == pytest.approx(1.96 * 0.0828 / 6, rel=0.01)


def test_two_reads_of_an_engine_are_no_mean_and_three_are() -> None:
    assert mean_over([1.0, 1.0], Unit.RATIO).missing is Missing.TOO_FEW_EVENTS
    assert mean_over([1.0, 1.0, 1.0], Unit.RATIO).value == 1.0


@pytest.mark.parametrize(("tokens", "known"), [(28, False), (32, True)])
def test_an_engines_latency_needs_thirty_answers(tokens: int, known: bool) -> None:
    def lines(read: int) -> Iterable[str]:
        yield f'vllm:e2e_request_latency_seconds_sum{{model="llm",version="1"}} {tokens * read / 12 * 0.3}'
        yield f'vllm:e2e_request_latency_seconds_count{{model="llm",version="1"}} {tokens * read / 12}'

    stage = Stage("llm", rate=5, execution=0.001, config=model_config("llm", backend="vllm"))
    window = SyntheticTriton(models=(stage,), extra_metrics=lines).window()

    assert (ENGINE_SECONDS.read(view_of(window, "llm")).missing is None) is known


@pytest.mark.parametrize(
    ("active", "filled", "full"),
    [(0.98, 0.85, True), (0.94, 0.85, False), (0.98, 0.75, False), (0.90, 0.99, False)],
)
def test_a_card_without_time_left_on_well_filled_processors_is_full(active: float, filled: float, full: bool) -> None:
    load = DeviceLoad(active=active, compute=filled, memory=None, power=None, samples=9, source="nvml")
    room = load.headroom(time_sliced=False)

    assert room is not None
    assert room[2] == pytest.approx(1 - active if full else 1 - filled)


@pytest.mark.parametrize(("percent", "share"), [(89.0, 0.0), (91.0, 1.0)])
def test_a_card_is_at_its_limit_with_less_than_a_tenth_left(percent: float, share: float) -> None:
    gpu = {"utilization_gpu_percent": 95, "gpm": {"graphics_util": 50.0, "sm_util": percent}}
    stage = Stage("m", rate=10, execution=0.01, config=model_config("m", groups=[{"kind": "KIND_GPU", "count": 1}]))
    window = SyntheticTriton(models=(stage,), gpu=gpu).window()

    assert GPU_AT_LIMIT.read(view_of(window, None, None)).value == share


def cold(first: float) -> Window:
    return reported({KEY: [Did(requests=40, infer=first * 0.02), *[Did(requests=40, infer=0.02)] * 8]})


@pytest.mark.parametrize(("slower", "is_cold"), [(1.85, False), (2.15, True)])
def test_executions_are_cold_above_twice_their_steady_time(slower: float, is_cold: bool) -> None:
    view = view_of(cold(slower), "m")

    assert COLD_SLOWDOWN.read(view).value == pytest.approx(slower)
    assert (COLD_COMPUTE_SECONDS.read(view).value != 0) is is_cold


@pytest.mark.parametrize(("steps", "known"), [(2, False), (3, True)])
def test_a_start_is_measured_from_three_steps_on(steps: int, known: bool) -> None:
    began = [Did(requests=40, infer=0.1), *[Did(requests=40, infer=0.02)] * (steps - 1)]
    found = COLD_SLOWDOWN.read(view_of(reported({KEY: began}), "m"))

    assert (found.missing is None) is known


@pytest.mark.parametrize(("executions", "slowdown"), [(9, 1.0), (10, 2.0)])
def test_versions_are_compared_from_ten_executions_of_each_on(executions: int, slowdown: float) -> None:
    """The first read since loading is left out: it may count a warm-up."""
    old, absent = Did(requests=40, infer=0.02), Did(absent=True)
    new = [Did(requests=1, infer=0.04), Did(requests=executions, infer=0.04), Did()]
    window = reported({KEY: [old] * 4 + [Did()] * 3, ("m", "2"): [absent] * 4 + new})

    assert VERSION_SLOWDOWN.read(view_of(window, "m", "2")).value == pytest.approx(slowdown)


@pytest.mark.parametrize(("batched", "estimated"), [(0.01, False), (0.05, True)])
def test_a_hundredth_more_requests_than_executions_is_what_reads_cut_off(batched: float, estimated: bool) -> None:
    stage = Stage("m", rate=100, batches={1: 1 - batched, 2: batched}, execution=0.005, config=model_config("m"))
    view = view_of(SyntheticTriton(models=(stage,)).without(BodyKind.STATISTICS).window(), "m")

    assert EXECUTION_SECONDS.read(view).estimated is estimated


@pytest.mark.parametrize(("seconds", "estimated"), [(5.5, False), (6.5, True)])
@pytest.mark.parametrize("without", [(), (BodyKind.STATISTICS,)])
def test_a_busy_share_is_an_estimate_when_one_execution_is_a_tenth_of_the_span(
    seconds: float, estimated: bool, without: Sequence[BodyKind]
) -> None:
    config = model_config("m", groups=[{"kind": "KIND_CPU", "count": 4}])
    stage = Stage("m", rate=0.2, execution=seconds, config=config)
    window = SyntheticTriton(models=(stage,), before=1000.0).without(*without).window()

    assert INSTANCE_BUSY_SHARE.read(view_of(window, "m")).estimated is estimated


@pytest.mark.parametrize(("count", "missing"), [(950, None), (1100, Missing.CONFLICTING)])
def test_no_server_runs_more_than_a_thousand_instances_of_a_model(count: int, missing: Missing | None) -> None:
    config = model_config("m", groups=[{"kind": "KIND_CPU", "count": count}])
    window = SyntheticTriton(models=(Stage("m", rate=1, config=config),)).window()

    assert INSTANCES.read(view_of(window, "m")).missing is missing


def outside(share: float = 1.0, steps: int = 20, slow: Mapping[int, float] | None = None) -> Reading:
    """Return the time outside where clients sent this share of a server's twenty requests in each step of 2 s."""
    story = story_scrapes({KEY: [Did(requests=20, seconds=0.02)] * steps})
    each = round(20 * share)
    moments = [2.0 * step + 1.9 * n / each for step in range(steps) for n in range(each)]
    took = [(slow or {}).get(int(at // 2), 0.07) for at in moments]
    return OUTSIDE_SECONDS.read(view_of(window_of([*story, sent(moments, took)]), "m"))


def test_clients_and_server_count_the_same_requests_within_a_tenth() -> None:
    def missing(per_step: int, of: int) -> Missing | None:
        story = story_scrapes({KEY: [Did(requests=of, seconds=0.02)] * 20})
        moments = [2.0 * step + 1.9 * n / per_step for step in range(20) for n in range(per_step)]
        return OUTSIDE_SECONDS.read(view_of(window_of([*story, sent(moments, 0.07)]), "m")).missing

    assert missing(91, 100) is None
    assert missing(89, 100) is Missing.CONFLICTING


@pytest.mark.parametrize(("steps", "known"), [(2, False), (3, True)])
def test_three_comparisons_tell_the_time_outside(steps: int, known: bool) -> None:
    assert (outside(steps=steps).missing is None) is known


@pytest.mark.parametrize(
    ("behind", "longer", "missing"), [(0, 0.0, None), (8, 0.0, Missing.CONFLICTING), (8, 2.0, None)]
)
def test_a_clock_that_is_behind_makes_no_time_outside_of_a_line_that_grows(
    behind: float, longer: float, missing: Missing | None
) -> None:
    """Each second requests take 0.1 s longer, and a record that is 8 s late holds those that took 0.8 s longer."""
    took = {2.0 * step + 0.1 * n: 0.5 + 0.2 * step for step in range(24) for n in range(1, 20)}
    steps = [Did(requests=19, seconds=0.5 + 0.2 * step) for step in range(12)]
    record = sent(
        [end - seconds - longer - behind for end, seconds in took.items()], [s + longer for s in took.values()]
    )
    reading = OUTSIDE_SECONDS.read(view_of(window_of([*story_scrapes({KEY: steps}), record]), "m"))

    assert reading.missing is missing
    assert reading.value == (None if missing else pytest.approx(0.1 * behind + longer))


def test_independent_arrivals_score_nearly_as_a_standard_normal_does() -> None:
    """A little less far apart, since the largest difference of each series is left out."""
    draw = random.Random(7)
    scores = []
    for _ in range(1500):
        bins = [ArrivalBin(1.0, max(draw.gauss(400, 20), 0.0), None) for _ in range(13)]
        found = dispersion(bins)
        assert found is not None
        scores.append(found.z)

    assert stdev(scores) == pytest.approx(0.89, abs=0.05)


@pytest.mark.parametrize(("bins", "known"), [(7, False), (8, True)])
def test_bursts_are_judged_from_eight_intervals_on(bins: int, known: bool) -> None:
    assert (dispersion([ArrivalBin(1.0, 40.0 + n % 3, None) for n in range(bins)]) is not None) is known


def test_intervals_are_joined_until_five_requests_are_expected_in_each() -> None:
    """Of 24 intervals, pairs are 12, triples 8, and sixfold ones too few."""

    def joined(rate: float) -> int:
        found = dispersion([ArrivalBin(1.0, rate if n % 2 else rate * 1.001, None) for n in range(12)])
        return found.bins if found else 0

    assert joined(5.2) == 12
    assert joined(4.8) == 0


@pytest.mark.parametrize(("seconds", "grows"), [(540, False), (660, True)])
def test_memory_is_judged_from_ten_minutes_on(seconds: float, grows: bool) -> None:
    triton = SyntheticTriton(models=(Stage("m", rate=1),), cpu_busy=None, interval=10.0)
    window = machine_window(
        triton, reads=round(seconds / 10) + 1, step=10.0, hosts=lambda at: processes(11, rss=1e9 + 1e5 * at)
    )
    found = host.MEMORY_GROWTH.read(view_of(window, None, None))

    assert (found.missing is None) is grows
    if grows:
        assert [found.value, found.low, found.high] == pytest.approx([1e5] * 3, rel=0.07)


@pytest.mark.parametrize(("percent", "works"), [(4, False), (6, True)])
def test_a_stranger_works_from_five_per_cent_of_the_processors_on(percent: int, works: bool) -> None:
    groups = [{"kind": "KIND_GPU", "count": 1, "gpus": [0]}]
    stage = Stage("m", rate=20, execution=0.02, config=model_config("m", groups=groups))
    window = machine_window(
        SyntheticTriton(models=(stage,), cpu_busy=None),
        gpus=lambda _: [working((101, 20), (900, percent))],
        hosts=lambda _: processes(101),
    )

    assert (FOREIGN_STAY.read(card_view(window)).value == 1.0) is works


@pytest.mark.parametrize(("between", "stays"), [(None, True), ([{"pid": 101, "sm_percent": 20}], False)])
def test_samples_that_leave_processes_out_say_nothing_of_a_strangers_stay(
    between: list[dict[str, int]] | None, stays: bool
) -> None:
    """Where that question takes long it is asked every ninth time only."""
    groups = [{"kind": "KIND_GPU", "count": 1, "gpus": [0]}]
    stage = Stage("m", rate=20, execution=0.02, config=model_config("m", groups=groups))
    listed = working((101, 20), (900, 60))
    reads = iter(range(1000))
    window = machine_window(
        SyntheticTriton(models=(stage,), cpu_busy=None),
        gpus=lambda _: [listed if next(reads) % 9 == 0 else {**listed, "process_utilization": between}],
        hosts=lambda _: processes(101),
    )

    assert (FOREIGN_STAY.read(card_view(window)).value == 1.0) is stays


def test_a_clients_record_is_cut_into_seconds_and_what_company_costs_is_reported() -> None:
    """In each second twenty requests arrive at once, and forty in one of twenty; they take longer in company."""
    story = story_scrapes({KEY: [Did(requests=40, seconds=0.1)] * 30})
    moments = [float(s) + 0.01 * n for s in range(60) for n in range(40 if s % 10 == 5 else 20)]
    took = [0.3 if int(at) % 10 == 5 else 0.1 for at in moments]
    view = view_of(window_of([*story, sent(moments, took)]), "m")

    # 10 ms for each request beside it, of which a request meets 23.6 on average instead of 22.
    assert CROWDED_SECONDS.read(view).value == pytest.approx(0.0164, rel=0.1)
    assert BURST_SIZE.read(view).missing is None
