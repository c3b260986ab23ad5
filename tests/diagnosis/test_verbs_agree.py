"""`diag explain` and `diag tune` give one answer for one window."""

from __future__ import annotations

import ast
from pathlib import Path

from diagnostics.cli.proposing import entry_of
from diagnostics.diagnosis.explanation import explain_evidence
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.target import LatencyTarget
from diagnostics.window.window import window_of
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
    assert found.best is None
    assert found.nearest is not None


def test_only_one_module_puts_checks_and_validation_together() -> None:
    root = Path(__file__).parents[2]
    parts = {"explain", "explain_window", "explain_evidence", "validated", "focused"}
    users = {
        str(path.relative_to(root))
        for path in [*root.glob("diagnostics/**/*.py"), *root.glob("exporters/**/*.py")]
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        and node.module in ("diagnostics.diagnosis.explanation", "diagnostics.diagnosis.validation")
        and parts & {name.name for name in node.names}
    }

    assert users == {"diagnostics/diagnosis/diagnose.py"}
