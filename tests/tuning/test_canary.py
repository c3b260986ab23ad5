"""A trial of a change: what is applied, in which order it is taken back, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import click
import pytest

from diagnostics.canary import Canary, CanaryOutcome, changed_config, why_not_kept
from diagnostics.errors import CollectError, UsageError
from diagnostics.forecast.performance import Estimate
from diagnostics.forecast.verify import Judgement, Measure, Verification, Verified
from diagnostics.signals.signal import Reading
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.units import Unit

SERVED = {"backend": "python", "max_batch_size": 0, "instance_group": [{"name": "m_0", "kind": "KIND_CPU", "count": 1}]}


def change(model: str = "m", count: int = 2) -> ConfigChange:
    return ConfigChange(model=model, settings=(Setting(path="instance_group.count", value=count),))


def verification(
    verdict: Verified = Verified.CONFIRMED,
    after: float = 0.1,
    unchanged: float | None = 0.3,
    predicted: float | None = None,
) -> Verification:
    judgement = Judgement(verdict=verdict, reason="as predicted")
    measured = Estimate(value=after, low=after * 0.9, high=after * 1.1)
    kept = Estimate(value=unchanged, low=unchanged, high=unchanged) if unchanged is not None else None
    forecast = measured if predicted is None else Estimate(value=predicted, low=predicted, high=predicted)
    mean = Measure(
        statistic="mean", before=kept, after=measured, predicted=forecast, unchanged=kept, judgement=judgement
    )
    rate = Reading(value=40.0, low=40.0, high=40.0, unit=Unit.PER_SECOND, source="test")
    return Verification(
        entry="m",
        changes=(),
        unpredicted=(),
        rates=(rate, rate),
        load_differs=False,
        block_seconds=None,
        measures=(mean,),
        judgement=judgement,
        assumptions=(),
    )


@dataclass
class Control:
    """A server that remembers what it was given; models in `broken` are not loaded, and of a liar none is."""

    broken: set[str] = field(default_factory=set)
    gone: bool = False
    liar: bool = False
    loads: list[tuple[str, int]] = field(default_factory=list)

    def config(self, model: str) -> bytes:
        (group,) = SERVED["instance_group"]  # type: ignore[attr-defined]
        counts = [1, *(count for name, count in self.loads if name == model and not self.liar)]
        return json.dumps({**SERVED, "name": model, "instance_group": [{**group, "count": counts[-1]}]}).encode()

    def load(self, model: str, config: bytes) -> None:
        count = json.loads(config)["instance_group"][0]["count"]
        if self.gone or (model in self.broken and count != 1):
            raise CollectError("it was not loaded", where=model)
        self.loads.append((model, count))


def run(
    control: Control, measure: Callable[[float], Verification], *models: str
) -> tuple[CanaryOutcome, str, list[str]]:
    lines: list[str] = []
    changes = [change(model) for model in models or ("m",)]
    result = Canary(
        control=control, changes=changes, measure=measure, seconds=60.0, longest=300.0, report=lines.append
    ).run()
    return result.outcome, result.reason, lines


def test_a_confirmed_change_is_kept() -> None:
    control = Control()
    assert run(control, lambda _: verification())[:2] == (CanaryOutcome.KEPT, "as predicted")
    assert control.loads == [("m", 2)]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (verification(Verified.REFUTED, predicted=0.05), "refuted"),
        (verification(Verified.INCONCLUSIVE), "inconclusive"),
        (verification(after=0.4), "did not certainly fall"),
        (verification(after=0.29), "did not certainly fall"),
    ],
    ids=["refuted", "inconclusive", "worse as predicted", "not certainly better"],
)
def test_what_is_not_confirmed_or_does_not_help_is_taken_back(found: Verification, why: str) -> None:
    control = Control()
    outcome, reason, _ = run(control, lambda _: found)
    assert outcome is CanaryOutcome.TAKEN_BACK
    assert why in reason
    assert control.loads == [("m", 2), ("m", 1)]


@pytest.mark.parametrize(("needed", "windows"), [(240.0, [60.0, 240.0]), (301.0, [60.0]), (None, [60.0])])
def test_a_window_that_decides_nothing_is_followed_by_one_that_can(needed: float | None, windows: list[float]) -> None:
    undecided = verification(Verified.INCONCLUSIVE)
    undecided = replace(undecided, judgement=replace(undecided.judgement, seconds_needed=needed))
    asked: list[float] = []

    def measure(seconds: float) -> Verification:
        asked.append(seconds)
        return undecided if seconds == 60.0 else verification()

    outcome = run(Control(), measure)[0]
    assert asked == windows
    assert outcome is (CanaryOutcome.KEPT if len(windows) > 1 else CanaryOutcome.TAKEN_BACK)


def test_a_change_that_helps_more_than_was_predicted_is_kept() -> None:
    assert why_not_kept(verification(Verified.REFUTED, predicted=0.2)) == ""


def test_a_change_that_lets_the_server_keep_up_is_kept() -> None:
    assert why_not_kept(verification(after=5.0, unchanged=None)) == ""


def test_of_several_models_those_that_were_changed_are_taken_back_in_reverse() -> None:
    control = Control(broken={"b"})
    outcome, reason, _ = run(control, lambda _: verification(), "a", "b", "c")
    assert outcome is CanaryOutcome.TAKEN_BACK
    assert "b: it was not loaded" in reason
    assert control.loads == [("a", 2), ("b", 1), ("a", 1)]


@pytest.mark.parametrize(
    "raised",
    [KeyboardInterrupt(), CollectError("nothing was read"), click.exceptions.Exit(3)],
    ids=["Ctrl-C", "no window", "no server"],
)
def test_whatever_ends_the_measurement_takes_it_back(raised: BaseException) -> None:
    control = Control()

    def measure(_: float) -> Verification:
        raise raised

    assert run(control, measure)[0] is CanaryOutcome.TAKEN_BACK
    assert control.loads == [("m", 2), ("m", 1)]


def test_a_server_that_answers_that_it_loaded_and_serves_what_it_served_is_not_measured() -> None:
    outcome, reason, _ = run(Control(liar=True), lambda _: verification())
    assert (outcome, reason) == (
        CanaryOutcome.TAKEN_BACK,
        "m: the server answered that it was loaded, but serves other settings",
    )


@pytest.mark.parametrize("broken", [UnicodeDecodeError("utf-8", b"", 0, 1, "x"), RecursionError(), BrokenPipeError()])
def test_whatever_breaks_the_way_back_of_one_model_the_others_are_taken_back(broken: Exception) -> None:
    class Breaking(Control):
        def load(self, model: str, config: bytes) -> None:
            if model == "b" and ("b", 2) in self.loads:
                raise broken
            super().load(model, config)

    control = Breaking()

    def report(text: str) -> None:
        if text.startswith("could not"):
            raise BrokenPipeError

    result = Canary(
        control=control,
        changes=[change("a"), change("b")],
        measure=lambda _: verification(after=0.4),
        seconds=60.0,
        longest=300.0,
        report=report,
    ).run()
    assert result.outcome is CanaryOutcome.STRANDED
    assert control.loads == [("a", 2), ("b", 2), ("a", 1)]


@pytest.mark.parametrize(
    "served", [b"[" * 100_000, b"\xff{}", b'{"max_batch_size": 1e999}', b'{"name": "\\ud800"}', b"7"]
)
def test_a_configuration_that_is_none_is_one_error(served: bytes) -> None:
    with pytest.raises(CollectError, match="m: its configuration cannot be read"):
        changed_config(served, change())


def test_a_server_that_is_gone_is_reported() -> None:
    control = Control()

    def measure(_: float) -> Verification:
        control.gone = True
        raise CollectError("nothing was read")

    outcome, _, lines = run(control, measure)
    assert outcome is CanaryOutcome.STRANDED
    assert lines[-1].startswith("could not take it back from m: ")


def test_the_configuration_keeps_all_that_the_change_does_not_name() -> None:
    changed = json.loads(changed_config(json.dumps({**SERVED, "name": "m"}).encode(), change(count=3)))
    assert changed["instance_group"] == [{"name": "m_0", "kind": "KIND_CPU", "count": 3}]
    assert (changed["name"], changed["backend"]) == ("m", "python")


def test_a_field_that_the_library_does_not_know_is_not_lost_silently() -> None:
    with pytest.raises(CollectError, match="install a tritonclient as new as the server"):
        changed_config(json.dumps({**SERVED, "a_field_of_tomorrow": 1}).encode(), change())


@pytest.mark.parametrize(
    ("path", "value"), [("engine.max_batch_size", 8), ("dynamic_batching.preserve_ordering", True)]
)
def test_a_change_that_cannot_be_made_is_refused_before_anything_is_applied(path: str, value: int) -> None:
    class Sequences(Control):
        def config(self, model: str) -> bytes:
            return json.dumps({**SERVED, "name": model, "sequence_batching": {}}).encode()

    control = Sequences()
    last = ConfigChange(model="m", settings=(Setting(path=path, value=value),))
    with pytest.raises(UsageError):
        Canary(
            control=control,
            changes=(change("a"), last),
            measure=lambda _: verification(),
            seconds=60.0,
            longest=300.0,
            report=print,
        ).run()
    assert control.loads == []
