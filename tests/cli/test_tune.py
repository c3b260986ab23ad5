from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from diagnostics.cli import tune, tuning
from diagnostics.diagnosis import predicting
from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.diagnosis.proposing import SourceEvidence
from diagnostics.errors import UsageError
from diagnostics.forecast import capacity
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.forecast.options import Minimize
from diagnostics.forecast.predict import DRAWS
from diagnostics.forecast.search import Candidate, Tuning
from diagnostics.forecast.target import LatencyTarget
from tests.builders import Stage, SyntheticTriton, chain, model_config
from tests.forecast import tunable
from tests.forecast.performances import performance

SAFETY = Stage("safety", rate=38, execution=0.0245, queue=0.169, config=model_config("safety"))
CHAT = Stage("chat", rate=38, overhead=0.195, config=chain("chat", "safety"))
OTHER = Stage("other", rate=5, execution=0.01, config=model_config("other"))
OBJECTIVE = ("--objective", "p95 < 120ms")


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the command a server, and a search of short runs."""
    evidence = SyntheticTriton(models=(SAFETY, CHAT, OTHER)).evidence()
    window = WindowFacts(start=evidence.window.start, end=evidence.window.end, sources=("triton-0",))
    monkeypatch.setattr(tune, "see", lambda _: SourceEvidence(evidence=evidence, window=window))
    monkeypatch.setattr(tuning, "tune", functools.partial(tunable.tune, draws=1))
    short = functools.partial(tuning.performance, draws=1, visits=tunable.VISITS)
    monkeypatch.setattr(tuning, "performance", short)
    monkeypatch.setattr(capacity, "VISITS", tunable.VISITS)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(tune.command, ["there", *arguments])


def refused(*arguments: str) -> str:
    error = run(*arguments).exception
    assert isinstance(error, UsageError)
    return str(error)


def test_the_smallest_change_is_reported_with_its_patch() -> None:
    done = run(*OBJECTIVE)

    assert done.exit_code == 0
    assert done.output.startswith("chat: safety instance_group.count 1 → 2 meets p95 < 120ms: ")
    assert "count: 2" in done.output


def test_the_cause_is_held_against_the_forecasts_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "tune", functools.partial(tunable.tune, draws=DRAWS))
    monkeypatch.setattr(predicting, "performance", lambda fitted: pytest.fail(f"{fitted.entry} is simulated again"))

    assert run(*OBJECTIVE).exit_code == 0


def test_an_objective_at_another_load_needs_more() -> None:
    report = json.loads(run(*OBJECTIVE, "--rate", "3x", "--output", "json").output)

    assert report["load"]["rate_factor"] == 3.0
    assert report["measured"]["mean_seconds"] is None
    assert report["answer"]["settings"][0]["after"] in ("4", "5")
    assert report["patches"][0]["model"] == "safety"


def test_what_is_varied_bounds_the_answer() -> None:
    report = json.loads(run(*OBJECTIVE, "--vary", "safety.instance_group.count=1,3", "--output", "json").output)

    assert [one["after"] for one in report["answer"]["settings"]] == ["3"]


@pytest.mark.parametrize(
    ("fail_on", "objective", "code"),
    [("never", "p95 < 120ms", 0), ("unmet", "p95 < 120ms", 0), ("change", "p95 < 120ms", 1)],
)
def test_it_exits_with_1_where_that_is_requested(fail_on: str, objective: str, code: int) -> None:
    assert run("--objective", objective, "--fail-on", fail_on).exit_code == code


def test_what_nothing_meets_is_reported_and_fails_where_that_is_requested() -> None:
    done = run("--objective", "mean < 10ms", "--fail-on", "unmet")

    assert done.exit_code == 1
    assert done.output.startswith("chat: no setting found meets mean < 10ms")
    assert "what would help: safety, which executes longest" in " ".join(done.output.split())


def test_the_settings_that_carry_most_are_listed() -> None:
    arguments = ("--maximize", "throughput", "--vary", "safety.instance_group.count=1..2", "--output", "json")
    report = json.loads(run(*OBJECTIVE, *arguments).output)

    assert report["kind"] == "capacity"
    assert [one["instances"] for one in report["settings"]] == [2, 1]
    assert report["settings"][0]["load_factor"] > 1 > report["settings"][1]["load_factor"]


def test_an_export_is_a_script_or_a_configuration_by_its_suffix(tmp_path: Path) -> None:
    run(*OBJECTIVE, "--export", str(tmp_path / "confirm.yaml"))

    read = yaml.safe_load((tmp_path / "confirm.yaml").read_text("utf-8"))
    assert read["profile_models"] == ["chat"]
    assert "neither .sh nor .yaml" in refused(*OBJECTIVE, "--export", str(tmp_path / "confirm.txt"))


def test_a_model_that_contradicts_the_measurement_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = Stage("safety", rate=2, execution=0.0245, queue=0.169, config=model_config("safety"))
    ensemble = Stage("chat", rate=2, overhead=0.195, config=chain("chat", "safety"))
    evidence = SyntheticTriton(models=(idle, ensemble)).evidence()
    window = WindowFacts(start=1.0, end=61.0, sources=("triton-0",))
    monkeypatch.setattr(tune, "see", lambda _: SourceEvidence(evidence=evidence, window=window))

    error = run("--objective", "mean < 100ms").exception

    assert isinstance(error, Unpredictable)
    assert "mean < 100ms was missed (measured 19" in str(error)


@pytest.mark.parametrize(
    ("objective", "more"),
    [
        ("mean < 190ms", ()),
        ("mean < 190ms", ("--minimize", "instances")),
        ("mean < 190ms", ("--maximize", "throughput", "--vary", "safety.instance_group.count=1..2")),
    ],
)
def test_a_missed_objective_is_not_met_however_wide_the_models_interval_is(
    objective: str, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measured mean of 195 ms is within the interval, whose central value meets the objective."""
    wide = performance(0.15, width=0.2)
    target = LatencyTarget.parse(objective)
    met = Tuning(
        target=target,
        minimize=Minimize.INSTANCES,
        baseline=wide,
        best=Candidate(changes=(), instances=1, gpu_share=None, performance=wide),
        runners_up=(),
        nearest=None,
        screened=0,
        simulated=0,
    )
    monkeypatch.setattr(tuning, "tune", lambda *_, **__: met)
    monkeypatch.setattr(tuning, "performance", lambda *_, **__: wide)

    error = run("--objective", objective, *more).exception

    assert isinstance(error, Unpredictable)
    assert "mean < 190ms was missed (measured 19" in str(error)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--objective", "fast"), "cannot read objective"),
        (("--objective", "p90 < 1s"), "state the mean, p50, p95 or p99"),
        ((*OBJECTIVE, "--minimize", "instances", "--maximize", "throughput"), "look for different things"),
        ((*OBJECTIVE, "--export", "no/such/folder/confirm.sh"), "there is no such folder"),
        ((*OBJECTIVE, "--maximize", "throughput"), "say what may be varied"),
        ((*OBJECTIVE, "--minimize", "gpu-share"), "how much of a GPU is used was not read"),
        ((*OBJECTIVE, "--vary", "safety.instance_group.count"), "cannot read a value"),
        ((*OBJECTIVE, "--vary", "other.instance_group.count=1..2"), "other is not behind chat"),
        ((*OBJECTIVE, "--vary", "safety.nothing=1..2"), "there is no setting"),
        ((*OBJECTIVE, "--vary", "safety.instance_group.count=0..2"), "instance_group.count"),
        ((*OBJECTIVE, *("--vary", "safety.instance_group.count=1..2") * 2), "varied twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(arguments: tuple[str, ...], why: str) -> None:
    assert why in refused(*arguments)
