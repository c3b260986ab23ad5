from __future__ import annotations

import importlib
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from diagnostics.cli import whatif
from diagnostics.cli.main import main
from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.diagnosis.proposing import SourceEvidence
from diagnostics.errors import CollectError, UsageError
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast import entry_model
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.performance import Forecast, Performance
from diagnostics.forecast.what_if import WhatIf
from diagnostics.signals.signal import Subject
from diagnostics.tuning.simulation.scenario import ClosedLoop
from tests.builders import Stage, SyntheticTriton, chain, model_config
from tests.forecast.performances import performance

SAFETY = Stage("safety", rate=38, execution=0.0245, queue=0.169, config=model_config("safety"))
CHAT = Stage("chat", rate=38, overhead=0.195, config=chain("chat", "safety"))
OTHER = Stage("other", rate=5, execution=0.01, config=model_config("other"))
MEANS = {1: 0.28, 2: 0.123, 3: 0.121, 4: 0.121}


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[WhatIf]:
    """Give the command a server, and forecasts by hand; return what it asks them."""
    wanted: list[WhatIf] = []

    def performed(fitted: Fitted, what_if: WhatIf | None = None, *, seed: int = 0) -> Performance:
        wanted.append(what_if or WhatIf())
        counts = [s.value for c in wanted[-1].changes for s in c.settings if s.path == "instance_group.count"]
        return performance(MEANS.get(int(str(counts[-1])), 0.1) if counts else 0.28, width=0.002)

    def forecast(fitted: Fitted, what_if: WhatIf, *, seed: int = 0) -> Forecast:
        after = performed(fitted, what_if, seed=seed)
        return Forecast(
            baseline=performance(0.28), predicted=after, measured_mean=0.283, assumptions=fitted.assumptions
        )

    evidence = SyntheticTriton(models=(SAFETY, CHAT, OTHER)).evidence()
    window = evidence.window
    seen = SourceEvidence(
        evidence=evidence, window=WindowFacts(start=window.start, end=window.end, sources=("triton-0",))
    )
    monkeypatch.setattr(whatif, "see", lambda _: seen)
    monkeypatch.setattr(entry_model, "performance", performed)
    monkeypatch.setattr(entry_model, "forecast", forecast)
    return wanted


def run(*arguments: str) -> Result:
    return CliRunner().invoke(whatif.command, ["there", *arguments])


def refused(*arguments: str) -> str:
    error = run(*arguments).exception
    assert isinstance(error, UsageError)
    return str(error)


def test_settings_and_a_rate_are_forecast_together(requested: list[WhatIf]) -> None:
    done = run("--set", "safety.instance_group.count=3", "--rate", "76/s")

    assert done.exit_code == 0
    assert done.output.startswith(
        "chat: modelled mean 280 ms → 121 ms (−57 %): safety instance_group.count 1 → 3,\n  2 times the arrivals\n"
    )
    (what_if,) = requested
    assert what_if.rate_factor == pytest.approx(2.0, rel=1e-3)
    assert [(s.path, s.value) for s in what_if.changes[0].settings] == [("instance_group.count", 3)]


def test_the_report_holds_the_patch_and_the_value_in_effect(requested: list[WhatIf]) -> None:
    report = json.loads(run("--set", "safety.instance_group.count=3", "--output", "json").output)

    assert report["settings"] == [{"model": "safety", "setting": "instance_group.count", "before": "1", "after": "3"}]
    assert "count: 3" in report["patches"][0]["patch"]
    assert report["patches"][0]["blast_radius"] == "in-place"
    assert (report["entry"]["name"], report["measured"]["mean_seconds"]) == ("chat", 0.283)


def test_a_larger_batch_size_without_a_batcher_hints_at_one(requested: list[WhatIf]) -> None:
    hint = "without a dynamic batcher, Triton executes requests one by one"
    alone, both = ("--set", "safety.max_batch_size=8"), ("--set", "safety.dynamic_batching=true")

    assert hint in " ".join(run(*alone).output.split())
    assert hint not in " ".join(run(*alone, *both).output.split())


def test_a_sweep_marks_the_value_in_effect_and_the_knee_and_gives_the_knees_patch(requested: list[WhatIf]) -> None:
    report = json.loads(run("--sweep", "safety.instance_group.count=1..4", "--output", "json").output)

    assert [point["value"] for point in report["points"]] == ["1", "2", "3", "4"]
    assert (report["now"], report["knee"]) == ("1", "2")
    assert "count: 2" in report["patches"][0]["patch"]


def test_values_without_an_order_have_no_knee(requested: list[WhatIf]) -> None:
    assert "no knee: its values have no order" in run("--sweep", "safety.dynamic_batching=true,none").output


def test_a_load_is_swept_over_changed_settings(requested: list[WhatIf]) -> None:
    done = run("--set", "safety.instance_group.count=2", "--sweep", "rate=19,38,76/s")

    assert done.exit_code == 0
    assert "chat over rate with safety instance_group.count 1 → 2" in done.output
    varied = [one for one in requested if one.changes]
    assert [round(one.rate_factor, 2) for one in varied] == [0.5, 1.0, 2.0]


def test_terminals_without_unicode_or_colour_get_letters(
    requested: list[WhatIf], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["there", "--sweep", "safety.instance_group.count=1,2"]

    assert "█" in CliRunner(charset="utf-8").invoke(whatif.command, arguments).output
    assert "####" in CliRunner(charset="ascii").invoke(whatif.command, arguments).output
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["whatif", *arguments]) == 0
    assert "####" in capsys.readouterr().out


def test_an_entry_that_is_called_less_can_be_named(requested: list[WhatIf]) -> None:
    assert run("--entry", "other", "--rate", "2x").output.startswith("other: modelled mean")


def test_clients_that_wait_for_their_answers_are_swept_by_their_number(
    requested: list[WhatIf], monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(evidence: Evidence, on: Subject) -> Fitted:
        fitted = fit(evidence, on)
        traffic = (ClosedLoop(entry="chat", clients=4),)
        return replace(fitted, scenario=replace(fitted.scenario, traffic=traffic))

    monkeypatch.setattr(entry_model, "fit", closed)

    report = json.loads(run("--sweep", "clients=2..6:2", "--output", "json").output)
    assert ([point["value"] for point in report["points"]], report["now"]) == (["2", "4", "6"], "4")
    assert [one.clients for one in requested] == [2, 4, 6, None]
    assert "give --clients" in refused("--rate", "2x")
    assert "'many' is no number of clients" in refused("--sweep", "clients=1,many")
    assert "--sweep: cannot read the rate '10'" in refused("--sweep", "rate=10..20:10")


@pytest.mark.parametrize(
    ("arguments", "stated"),
    [
        ((), "say what to change"),
        (("--entry", "chta", "--rate", "2x"), "entries are chat, other"),
        (("--set", "chat.max_batch_size=2"), "there is no model 'chat'; models are other, safety"),
        (("--clients", "4"), "give --rate"),
        (("--rate", "2x", "--sweep", "rate=1x,2x"), "is what the sweep varies"),
        (
            ("--set", "safety.instance_group.count=2", "--sweep", "safety.instance_group.count=1,2"),
            "instance_group.count is set twice",
        ),
    ],
)
def test_what_cannot_be_requested_is_refused_in_one_line(
    requested: list[WhatIf], arguments: tuple[str, ...], stated: str
) -> None:
    assert stated in refused(*arguments)


def test_without_a_request_nothing_is_predicted(requested: list[WhatIf], monkeypatch: pytest.MonkeyPatch) -> None:
    idle = SyntheticTriton(models=(replace(SAFETY, rate=0.0, queue=0.0),)).evidence()
    monkeypatch.setattr(
        whatif, "see", lambda _: SourceEvidence(evidence=idle, window=WindowFacts(start=1.0, end=2.0, sources=()))
    )

    assert isinstance(run("--rate", "2x").exception, CollectError)


@pytest.mark.parametrize(
    ("arguments", "code", "stated"),
    [
        (["--rate", "2x"], 2, "name a server, a capture, a Prometheus, or --history"),
        (["nothing.tar.xz", "--rate", "2x"], 3, "nothing.tar.xz"),
        (["a.tar.xz", "http://triton:8000", "--rate", "2x"], 2, "cannot be read together"),
        (["a.tar.xz", "nothing.txt", "--rate", "2x"], 3, "no such file or folder"),
        (["a.tar.xz", "--window", "5s", "--rate", "2x"], 2, "is for servers"),
        (["--history", ".", "--window", "5s", "--rate", "2x"], 2, "is for servers"),
        (["http://triton:8000", "--at", "03:12", "--rate", "2x"], 2, "a server only has current data"),
        (["a.tar.xz", "--deployment", "prod", "--rate", "2x"], 2, "--deployment: not together with a SOURCE"),
    ],
)
def test_sources_and_options_that_do_not_go_together_are_refused(
    arguments: list[str], code: int, stated: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DIAG_HISTORY__DIRECTORY", raising=False)

    assert main(["whatif", *arguments]) == code
    reported = capsys.readouterr().err
    assert stated in reported
    assert reported.count("\n") == 1


def test_the_verbs_that_look_at_a_window_name_it_in_the_same_way() -> None:
    verbs = [importlib.import_module(f"diagnostics.cli.{verb}").command for verb in ("explain", "whatif", "tune")]
    shared = set.intersection(*({option.name for option in verb.params} for verb in verbs))

    assert shared >= {"names", "window", "at", "since", "history", "deployment", "config_file", "repository", "timeout"}
