"""An ensemble sets fields that only models with instances have.

## Looks for
`instance_group`, `optimization`, `model_warmup`, `dynamic_batching` or `sequence_batching` next to
`ensemble_scheduling`, and a `backend`.

## Means
The server refuses the ensemble at load. An ensemble has no instances and no scheduler: its members have them.

## Do
Move the setting to the intended member.

## Sources
Triton core, `model_config_utils.cc` (`ValidateEnsembleSchedulingConfig`, `ValidateModelConfig`); `model_config.proto`
(`scheduling_choice` is one of three).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.ERROR, question=LintTopic.FITS)

_FIELDS = ("instance_group", "optimization", "model_warmup", "dynamic_batching", "sequence_batching", "backend")


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each field that an ensemble may not have."""
    if not view.config.has("ensemble_scheduling"):
        return
    for field in _FIELDS:
        written = view.config.text("backend") not in ("", None) if field == "backend" else view.config.has(field)
        if written:
            yield view.problem(f"an ensemble may not have {field}: it does not load", at=view.config.at(field))


_ENSEMBLE = 'name: "all"\nplatform: "ensemble"\nensemble_scheduling { step { model_name: "safety" } }\n'
CASES = (
    RuleCase.fires(
        "when an ensemble has instances",
        {"models/all/config.pbtxt": _ENSEMBLE + "instance_group { count: 2 }\n"},
        "4:1",
    ),
    RuleCase.quiet(
        "about an ensemble with versions and a response cache",
        {"models/all/config.pbtxt": _ENSEMBLE + "version_policy { all { } }\nresponse_cache { enable: true }\n"},
    ),
)
