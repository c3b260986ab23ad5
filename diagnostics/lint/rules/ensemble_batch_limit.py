"""An ensemble accepts larger batches than one of its members.

## Looks for
A member that batches, with a `max_batch_size` below the ensemble's.

## Means
The server refuses the ensemble at load: "ensemble … allows maximum batch size …, but it contains model …".

## Do
Lower the ensemble's `max_batch_size` to the smallest of its members', or raise the member's. Members that do not batch
(`max_batch_size: 0`) do not count.

## Sources
Triton core, `ensemble_utils.cc` (`ValidateEnsembleConfig`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import steps
from diagnostics.tuning.changes import ConfigChange, Setting

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the member that takes the smallest batches."""
    most = view.model.max_batch_size
    members = (view.repository.models.get(step.model or "") for step in steps(view.config))
    sizes = [(member.max_batch_size, member.name) for member in members if member and member.max_batch_size]
    if not most or not sizes:
        return
    least, member = min((size, name) for size, name in sizes if size)
    if least < most:
        setting = Setting(path="max_batch_size", value=least)
        yield view.problem(
            f"the ensemble takes batches of {most}, its member {member} only of {least}: it does not load",
            at=view.config.at("max_batch_size"),
            help=f"set max_batch_size: {least} here, or raise that of {member}",
            fix=ConfigChange(model=view.model.name, settings=(setting,)),
        )


_ENSEMBLE = """name: "all"
platform: "ensemble"
max_batch_size: 8
ensemble_scheduling { step { model_name: "safety" input_map { key: "X" value: "X" } } }
"""
_MEMBER = 'name: "safety"\nbackend: "python"\nmax_batch_size: 4\n'
CASES = (
    RuleCase.fires(
        "when a member accepts smaller batches",
        {"models/all/config.pbtxt": _ENSEMBLE, "models/safety/config.pbtxt": _MEMBER},
        "3:1",
    ),
    RuleCase.quiet(
        "when a member does not batch",
        {
            "models/all/config.pbtxt": _ENSEMBLE,
            "models/safety/config.pbtxt": _MEMBER.replace("4", "0"),
        },
    ),
    RuleCase.quiet(
        "when the member's limit is a template",
        {
            "models/all/config.pbtxt": _ENSEMBLE,
            "models/safety/config.pbtxt": _MEMBER.replace("4", "${size}"),
        },
    ),
)
