"""Forecasts by hand: what a test says of them is all that they hold."""

from __future__ import annotations

from diagnostics.forecast.performance import Estimate, Performance, StagePerformance


def estimate(value: float, width: float = 0.0) -> Estimate:
    """Return a number in the middle of an interval of that width."""
    return Estimate(value=value, low=value - width / 2, high=value + width / 2)


def stage(model: str = "safety", *, queue: float | None = 0.001, busy: float = 0.5) -> StagePerformance:
    """Return a stage; without a queue it does not keep up."""
    return StagePerformance(
        model=model,
        queue_mean=None if queue is None else estimate(queue),
        queue_p95=None if queue is None else estimate(3 * queue),
        compute_mean=estimate(0.024),
        busy_share=estimate(busy),
        batch_size_mean=1.0,
        refused_per_second=0.0,
        stable=queue is not None,
    )


def performance(
    mean: float | None,
    *,
    width: float = 0.0,
    throughput: float = 38.0,
    rejected: float = 0.0,
    stages: tuple[StagePerformance, ...] | None = None,
    drawn: tuple[float | None, ...] = (),
) -> Performance:
    """Return what requests experience; without a mean the deployment does not keep up."""

    def times(factor: float) -> Estimate | None:
        return None if mean is None else estimate(mean * factor, width * factor)

    return Performance(
        entry="chat",
        mean=times(1.0),
        p50=times(0.8),
        p95=times(2.0),
        p99=times(3.0),
        throughput=estimate(throughput, 1.0),
        rejected=rejected,
        stages=stages or (stage(queue=None if mean is None else mean / 2),),
        drawn=drawn,
    )
