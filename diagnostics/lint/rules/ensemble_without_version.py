"""An ensemble has no version folder, so no version can be loaded.

## Looks for
An ensemble whose folder holds no numbered folder.

## Means
The server refuses it: "failed to load …, no version is available". An ensemble's version folder is empty, and git does
not store empty folders. It works on one machine and is missing from every checkout.

## Do
Add a folder `1` with a file such as `.gitkeep`. Or create the folder at deployment, and waive this.

## Sources
Triton core, `model_repository_manager.cc` ("no version is available"). User guide, "Ensemble Models".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.WARNING, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report an ensemble without a version."""
    if not view.model.versions:
        yield view.problem(
            f"{view.model.name} has no version folder: it does not load",
            at=view.model.place,
            help=f"add {view.model.shown}/1/.gitkeep, or make the folder when the repository is deployed",
        )


_ENSEMBLE = 'name: "all"\nplatform: "ensemble"\nensemble_scheduling { step { model_name: "safety" } }\n'
CASES = (
    RuleCase.fires("without a version folder", {"models/all/config.pbtxt": _ENSEMBLE}, "1:1"),
    RuleCase.quiet("when a file keeps the folder", {"models/all/config.pbtxt": _ENSEMBLE, "models/all/1/.gitkeep": ""}),
)
