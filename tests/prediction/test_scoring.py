from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.forecast.performance import Estimate, Performance
from diagnostics.tuning.simulation.scenario import OpenLoop
from tests.prediction.comparing import QUANTITIES, Held, coverage, median_error, order
from tests.prediction.disturbance import Machine
from tests.prediction.groups import points
from tests.prediction.measured import Interval, Measured, Stage
from tests.prediction.plan import jobs
from tests.prediction.predicting import traffic_of
from tests.prediction.sweeps import sweeps
from tests.prediction.tables import each_line, meets_goals, prediction_lines
from tests.prediction.tuning import judged, objective_of, tuning_lines

MEAN, P95, THROUGHPUT = QUANTITIES
QUIET = Machine(busy_share=0.3, steal_share=0.0, throttled_seconds=0.0, late_seconds=0.0)


def measured(name: str, mean: float, busy: float = 0.5, throughput: float = 10.0) -> Measured:
    stage = Stage(model="safety", queue_mean=0.0, queue_p95=0.0, busy_share=busy, batch_size_mean=1.0)
    interval = Interval(value=mean, low=mean * 0.95, high=mean * 1.05)
    return Measured(
        name=name,
        began=5.0,
        seconds=40.0,
        mean=interval,
        p95=replace(interval, value=2 * mean),
        throughput=throughput,
        failed=0.0,
        stages=(stage,),
        load_seconds=46.0,
        machine=QUIET,
    )


def performance(mean: float | None, width: float = 0.1, throughput: float = 10.0) -> Performance:
    def estimate(value: float) -> Estimate:
        return Estimate(value=value, low=value * (1 - width), high=value * (1 + width))

    latency = None if mean is None else estimate(mean)
    tail = None if mean is None else estimate(2 * mean)
    return Performance(
        entry="chat",
        mean=latency,
        p50=latency,
        p95=tail,
        p99=tail,
        throughput=estimate(throughput),
        rejected=0.0,
        stages=(),
    )


def held(name: str, mean: float, predicted: Performance | None, **values: float) -> Held:
    one = measured(f"group.{name}.1", mean, **values)
    return Held(group="group", load="same", measured=one, predicted=predicted, refused="why" if not predicted else "")


def test_errors_are_relative_and_what_was_not_predicted_is_as_wrong_as_can_be() -> None:
    good, bad, none = (held(n, 0.1, p) for n, p in (("a", performance(0.105)), ("b", performance(0.15)), ("c", None)))

    assert good.error(MEAN) == pytest.approx(0.05)
    assert median_error([good, bad, none], MEAN) == pytest.approx(0.5)
    assert median_error([good, none, none], MEAN) == float("inf")
    assert median_error([], MEAN) is None


def test_the_median_error_of_a_deployment_that_is_stated_not_to_keep_up_is_infinite() -> None:
    assert median_error([held("a", 0.1, performance(None))], MEAN) == float("inf")
    assert held("a", 0.1, performance(None)).error(THROUGHPUT) == 0.0


def test_a_prediction_gets_the_arrivals_of_the_measurement_however_long_that_was() -> None:
    job = next(job for job in jobs(points(), seconds=40.0) if job.load.rate)
    shorter = next(one for one in jobs(points(), seconds=30.0) if one.name == job.name)
    one = replace(measured(job.name, 0.1), seconds=30.0, load_seconds=shorter.load_seconds)
    traffic = traffic_of(job, one)

    assert isinstance(traffic, OpenLoop)
    assert traffic.times == tuple(at for at in shorter.arrivals if at < 35.0)


def test_intervals_are_counted_where_there_is_one() -> None:
    inside, outside = held("a", 0.1, performance(0.105)), held("b", 0.1, performance(0.15))
    open_ended = replace(performance(0.05), mean=Estimate(value=0.05, low=0.04, high=None))

    assert coverage([inside, outside, held("c", 0.1, None)], MEAN) == (1, 2)
    assert coverage([held("d", 0.1, open_ended)], MEAN) == (1, 1)


def test_alternatives_count_where_measurements_tell_them_apart() -> None:
    slow, fast, like_fast = (held(n, m, performance(p)) for n, m, p in (("a", 2, 3), ("b", 1, 1), ("c", 1.02, 0.9)))

    assert order([slow, fast, like_fast]) == (2, 2)
    assert order([held("a", 2, performance(0.5)), fast]) == (0, 1)
    assert order([held("a", 2, performance(None)), fast]) == (1, 1)
    assert order([held("a", 2, None), fast]) == (0, 1)
    assert order([slow, replace(fast, load="other")]) == (0, 0)


def test_goals_are_errors_where_steady_and_intervals_and_order_where_not() -> None:
    steady, busy = held("a", 0.1, performance(0.105)), held("b", 0.5, performance(0.52), busy=0.95)

    assert meets_goals([steady, busy])
    assert not meets_goals([held("a", 0.1, performance(0.12)), busy])
    assert not meets_goals([steady, held("b", 0.5, performance(0.7), busy=0.95)])
    assert not meets_goals([steady, held("b", 0.5, None, busy=0.95)])


def test_the_tables_say_how_many_measurements_there_are_and_how_far_off_they_were_predicted() -> None:
    both = [held("a", 0.1, performance(0.105)), held("b", 0.5, performance(0.7), busy=0.95)]
    lines = list(prediction_lines(both))

    assert lines[2] == "| median error, busiest stage ≤ 85% | 1 | 5.0% | 5.0% | 0.0% |"
    assert "| inside the 90 % interval, busiest > 85 % | 1 | 0 of 1 | 0 of 1 | 1 of 1 |" in lines
    assert "| alternatives in the right order | 1 pairs | 1 of 1 |  |  |" in lines
    assert lines[-1].endswith("| 1 of 2 | 50% to 95% |")
    assert "mean 100.0 as    105.0 [94.5, 115.5] 5.0%" in each_line(both[0])
    assert "why" in each_line(held("c", 0.1, None))


def test_a_suggestion_is_worth_its_throughput_if_it_meets_the_objective() -> None:
    sweep = sweeps()[0]
    names = [name for name, _ in sweep.settings()]
    results = {
        name: measured(name, 0.1 + number / 100, throughput=100 - 2 * number) for number, name in enumerate(names)
    }
    objective = objective_of(sweep, results)

    assert sum(one.p95.value < objective for one in results.values()) == 6
    assert judged(sweep, objective, names[2], results, 1.0).ratio == 0.96
    assert judged(sweep, objective, names[8], results, 1.0).ratio == 0.0
    assert judged(sweep, objective, None, results, 1.0).ratio == 0.0
    some = {name: results[name] for name in names[1:]}
    assert (judged(sweep, objective, names[2], some, 1.0).settings, objective_of(sweep, some)) == (
        11,
        pytest.approx(0.32),
    )
    nothing = judged(sweep, 0.01, None, results, 1.0)
    assert nothing.ratio == 1.0
    assert list(tuning_lines([nothing]))[2] == "| sweep01 | 10 ms | 0 of 12 | none | none | 100% | 1.0 s | 120 s |"
