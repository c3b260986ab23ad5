"""One load, one prediction: parts of a steady recording agree, and a service predicts what the command does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations

import pytest

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import EndToEnd
from diagnostics.diagnosis.incident import IncidentBook
from diagnostics.diagnosis.validation import ForecastCache, validated
from diagnostics.service.deployment import Deployment
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.window.rolling import RollingWindow
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import explained
from tests.captures.recorded import scrapes_of

STEADY = (
    "cpu-handed-single-instance",
    "gpu-handed-single-instance",
    "cpu-handed-batch-window-long",
)
TIMED = (BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.INDEX, BodyKind.NVML, BodyKind.HOST)
# A third of a window tells a queue's length less exactly, by √3 and by chance; more than this is another answer.
MOST_APART = 5.0


def predicted(explanation: Explanation) -> EndToEnd:
    """Return what the change of the first finding does to whole requests."""
    effect = explanation.actionable[0].effect
    assert isinstance(effect, EndToEnd)
    assert effect.simulated
    return effect


def thirds(scrapes: Sequence[Scrape]) -> list[list[Scrape]]:
    """Return the three thirds of a recording, by the time of its reads; what was read once belongs to each."""
    times = [one.at for one in scrapes if one.kind is BodyKind.STATISTICS]
    start, length = min(times), (max(times) - min(times)) / 3
    spans = [(start + part * length - 0.01, start + (part + 1) * length + 0.01) for part in range(3)]
    return [[one for one in scrapes if one.kind not in TIMED or low <= one.at <= high] for low, high in spans]


@cache
def of_thirds(name: str) -> list[EndToEnd]:
    return [predicted(validated(explained(window_of(part)))) for part in thirds(scrapes_of(name))]


@pytest.mark.parametrize("name", STEADY)
def test_thirds_of_one_steady_recording_predict_the_same(name: str) -> None:
    means = [effect.mean for effect in of_thirds(name)]

    assert len(means) == 3
    for one, other in combinations(means, 2):
        assert one.high is not None
        assert other.high is not None
        assert max(one.low, other.low) <= min(one.high, other.high), (one, other)


@pytest.mark.parametrize("name", STEADY)
def test_intervals_of_thirds_are_as_wide_as_each_other(name: str) -> None:
    widths = [effect.mean.high - effect.mean.low for effect in of_thirds(name) if effect.mean.high is not None]

    assert len(widths) == 3
    assert max(widths) <= MOST_APART * min(widths)


def served(scrapes: Sequence[Scrape]) -> Explanation:
    """Return the verdict of a service whose window holds all that was read."""
    window = RollingWindow("chat", 300.0, max_spans=100_000)
    deployment = Deployment("chat", window, IncidentBook("chat"), OwnMetrics(), interval=2.0)
    for one in sorted(scrapes, key=lambda one: one.mono):
        deployment.give(one)
    deployment.take_in()
    return deployment.evaluate().explanation


def test_a_service_with_a_full_window_predicts_what_the_command_predicts() -> None:
    scrapes = scrapes_of("cpu-handed-single-instance")
    command, service = predicted(validated(explained(window_of(scrapes)))), predicted(served(scrapes))

    assert (service.mean.low, service.mean.value, service.mean.high) == pytest.approx(
        (command.mean.low, command.mean.value, command.mean.high), rel=0.02
    )
    assert service.now_mean == pytest.approx(command.now_mean, rel=0.02)


def test_what_was_forecast_while_a_window_filled_is_forecast_anew_once_it_holds_twice_as_much() -> None:
    memory, made = ForecastCache(), list[float]()

    def reported(now: float) -> float:
        return memory.of("effect", now, lambda: made.append(now) or now, mean_seconds=0.3, length=now)

    assert [reported(now) for now in (10.0, 19.0, 21.0, 40.0, 50.0, 90.0, 101.0, 200.0)] == [
        10.0,
        10.0,
        21.0,
        21.0,
        50.0,
        50.0,
        101.0,
        101.0,
    ]
