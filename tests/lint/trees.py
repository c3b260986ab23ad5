"""Small repositories for the tests of linting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from diagnostics.lint.catalogue import RegisteredRule, catalogue
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, Link, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.changes import ConfigChange, Setting

PLAIN = 'name: "{name}"\nbackend: "python"\nmax_batch_size: 4\n'
RULE = "no-warm-up"


def write(folder: Path, files: Mapping[str, str | bytes | Link]) -> Path:
    RuleCase(title="", files=files).write(folder)
    return folder


def model(name: str, more: str = "") -> dict[str, str | bytes | Link]:
    return {f"models/{name}/config.pbtxt": PLAIN.format(name=name) + more}


def rule_that(
    lint: object, scope: RuleScope = RuleScope.MODEL, severity: LintSeverity = LintSeverity.WARNING
) -> RegisteredRule:
    """Return a rule for tests, under the id of a real one so that settings and waivers may name it."""
    rule = Rule(scope=scope, severity=severity, question=LintTopic.WARM)
    return RegisteredRule(id=RULE, title="A rule", page="A rule.", rule=rule, lint=lint, cases=())  # type: ignore[arg-type]


def _batches(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Tell of every model that batches, with a change that ends it."""
    if view.model.max_batch_size:
        setting = Setting(path="max_batch_size", value=0)
        fix = ConfigChange(model=view.model.name, settings=(setting,))
        yield view.problem(f"{view.model.name} batches", at=view.config.at("max_batch_size"), help="do not", fix=fix)


BATCHES = rule_that(_batches)
RULES = {RULE: BATCHES} | {name: catalogue()[name] for name in ("waiver-unused", "waiver-without-reason")}
