"""`diag explain`, `diag whatif` and `diag tune` give one answer for one window."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from diagnostics.cli.tuning import Aim, tuned
from diagnostics.diagnosis.diagnose import diagnose
from diagnostics.diagnosis.explanation import WindowFacts, explain_evidence
from diagnostics.diagnosis.finding import EndToEnd
from diagnostics.diagnosis.proposal import TunedProposal
from diagnostics.diagnosis.proposing import ChangeRequest, SourceEvidence, entry_of, proposed
from diagnostics.evidence.capacity import SIDE_BY_SIDE
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast import search
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.target import LatencyTarget
from diagnostics.render.forecast.document import forecast_document
from diagnostics.render.phrases import end_to_end
from diagnostics.render.text import as_text
from diagnostics.render.tuning.document import tuned_document
from diagnostics.window.window import window_of
from tests.builders import SERVER, START, Stage, SyntheticTriton, model_config
from tests.captures.recorded import scrapes_of
from tests.forecast.tunable import tune


def evidence_of(capture: str) -> WindowEvidence:
    return WindowEvidence(window_of(scrapes_of(capture)))


def test_refusals_of_a_short_stage_get_instances_and_keep_their_queue_limit() -> None:
    evidence = evidence_of("cpu-handed-queue-overflow")

    cause = explain_evidence(evidence).findings[0]
    found = tune(fit(evidence, entry_of(evidence, None)), LatencyTarget.parse("p95 < 500ms"), draws=0)

    assert cause.check == "queue-rejections"
    assert cause.suggestion is not None
    assert found.best is not None
    assert found.best.changes == (cause.suggestion.change,)
    assert [one.path for one in found.best.changes[0].settings] == ["instance_group.count"]


def test_a_latency_that_only_refusals_keep_short_meets_no_objective() -> None:
    evidence = evidence_of("gpu-handed-queue-overflow")
    target = LatencyTarget.parse("p95 < 500ms")

    found = tune(fit(evidence, entry_of(evidence, None)), target, draws=0)

    value = target.forecast(found.baseline)
    assert value is not None
    assert value.value < target.seconds
    assert found.baseline.refused_share > 0.3
    assert found.best is None or found.best.changes


@pytest.mark.parametrize("capture", ["cpu-handed-single-instance", "gpu-handed-batch-window-long"])
def test_a_change_has_the_same_figures_in_every_verb(capture: str) -> None:
    evidence = evidence_of(capture)
    cause = diagnose(evidence).findings[0]
    assert cause.suggestion is not None
    assert cause.suggestion.change is not None

    effect, request = cause.effect, ChangeRequest(changes=(cause.suggestion.change,))
    seen = SourceEvidence(evidence=evidence, window=WindowFacts(start=0.0, end=1.0, sources=()))
    asked = proposed(seen, request).forecast.predicted
    setting = cause.suggestion.change.settings[0]
    vary = {cause.suggestion.change.model: {setting.path: [setting.value]}}
    target = LatencyTarget.parse("p95 < 60s")
    searched = search.tune(fit(evidence, entry_of(evidence, None)), target, vary=vary).best

    assert isinstance(effect, EndToEnd)
    assert effect.simulated
    assert effect.mean == asked.mean
    # Without a measured p95 none is predicted: there would be nothing to compare it with.
    assert effect.p95 == (asked.p95 if effect.now_p95 is not None else None)
    assert searched is not None
    assert (searched.performance.mean, searched.performance.p95) == (asked.mean, asked.p95)


def answers(instances: int, rate: float) -> tuple[str, str, TunedProposal, str]:
    """Return what explain, whatif and tune say of a full model of so many instances, and what is certain of it."""
    group = [{"kind": "KIND_CPU", "count": instances}]
    stage = Stage(
        "classifier",
        rate=rate,
        execution=0.0256,
        queue=0.3,
        pending=3,
        config=model_config("classifier", groups=group),
    )
    evidence = SyntheticTriton(models=(stage,), interval=2.0).evidence(16)
    window = WindowFacts(start=START, end=START + 30.0, sources=(SERVER,))
    seen = SourceEvidence(evidence=evidence, window=window)
    more = ChangeRequest(settings=(f"classifier.instance_group.count={instances + 2}",))
    tuning = tuned(seen, ChangeRequest(), Aim(objective="p95 < 80ms"))
    summary = explain_evidence(evidence).findings[0].summary
    return summary, as_text(forecast_document(proposed(seen, more))), tuning, as_text(tuned_document(tuning))


def test_forecasts_of_more_instances_doubt_what_explain_cannot_decide() -> None:
    summary, whatif, tuning, text = answers(instances=3, rate=114.0)

    assert SIDE_BY_SIDE in summary
    assert SIDE_BY_SIDE in " ".join(whatif.split())
    assert SIDE_BY_SIDE in " ".join(text.split())
    assert "possible, not certain" in text
    assert tuning.certain is False


def test_forecasts_of_more_than_one_instance_doubt_nothing() -> None:
    summary, whatif, _, text = answers(instances=1, rate=38.0)

    assert "wait for a lock" not in summary + whatif + text


def test_only_one_module_puts_checks_and_validation_together() -> None:
    root = Path(__file__).parents[2]
    parts = {"explain", "explain_evidence", "validated", "focused"}
    modules = ("diagnostics.diagnosis.explanation", "diagnostics.diagnosis.validation")
    texts = {
        path: path.read_text("utf-8") for top in ("diagnostics", "exporters") for path in root.glob(f"{top}/**/*.py")
    }
    users = {
        str(path.relative_to(root))
        for path, text in texts.items()
        if any(module in text for module in modules)  # to parse all takes seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module in modules and parts & {name.name for name in node.names}
    }

    assert users == {"diagnostics/diagnosis/diagnose.py"}


def test_where_a_full_gpu_held_up_requests_no_verb_proposes_instances_or_shows_an_interval() -> None:
    """The model of the window lacks the backlog that was worked off in it: 341 ms instead of 8.93 s."""
    evidence = evidence_of("gpu-handed-gpu-saturated")
    seen = SourceEvidence(evidence=evidence, window=WindowFacts(start=1.0, end=35.0, sources=("triton-0",)))

    cause = diagnose(evidence).actionable[0]
    assert isinstance(cause.effect, EndToEnd)
    forecast = proposed(seen, ChangeRequest(settings=("safety.instance_group.count=3",)))
    answer = tuned(seen, ChangeRequest(), Aim(objective="p95 < 100ms", vary=("safety.instance_group.count=2,3",)))

    explained = end_to_end(cause)
    assert "8.93 s was measured. Treat this prediction as rough" in explained
    assert "8.93 s → 159 ms," in explained
    shown = as_text(forecast_document(forecast))
    assert "the device under safety is full (2.4 % left)" in " ".join(shown.split())
    assert "19.4/s arrive; 23.3/s were answered" in " ".join(shown.split())
    assert "90 %" not in shown
    assert answer.tuning.nearest is None
    assert "nearest" not in as_text(tuned_document(answer))
