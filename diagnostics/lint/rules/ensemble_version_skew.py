"""Steps of an ensemble may serve versions that do not belong together.

## Looks for
Any of these:
- Some steps name a version, and others take the latest.
- A member's `version_policy` leaves out the named version, or only its folder is missing.
- Latest versions of members differ while each step takes the latest.

## Means
A tokenizer, an engine and a detokenizer that belong together must change together. A step that takes the latest changes
alone as soon as somebody adds a version. If a version is not served, the ensemble does not load.

## Do
Release the members together, with the same version number. Let every step name it, or every step take the latest.

## Sources
Triton user guide, "Model Repository" and "Ensemble Models"; `model_config.proto` (`ModelVersionPolicy`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.lint.model_folder import ModelFolder, served
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import StepBlock, steps
from diagnostics.wire.model_config import LATEST

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.WARNING, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report versions that are not served, and steps that may drift apart."""
    versions = [(step, step.block.integer("model_version")) for step in steps(view.config)]
    named = [(step, version) for step, version in versions if version is not None and version > 0]
    latest = [step for step, version in versions if version == LATEST]
    for step, version in named:
        yield from _not_served(view, step, version)
    if named and latest:
        models = ", ".join(sorted({step.model or "?" for step in latest}))
        yield view.problem(
            f"{named[0][0].model} stays at version {named[0][1]} while {models} change to each latest version",
            at=named[0][0].block.at("model_version"),
            help="name a version in every step, or in none",
            severity=LintSeverity.INFO,
        )
    if latest and not named:
        yield from _latest_differ(view, latest)


def _not_served(view: ConfiguredModelView, step: StepBlock, version: int) -> Iterator[LintProblem]:
    member = view.named(step.model) if step.model else None
    if member is None or member.config is None or not member.versions:
        return
    place = step.block.at("model_version")
    versions = served(member)
    if version not in member.versions:
        have = ", ".join(map(str, member.versions))
        message = f"version {version} of {member.name} is not there, but {have}: the ensemble does not load"
        yield view.problem(message, at=place, severity=LintSeverity.ERROR)
    elif versions is not None and version not in versions:
        message = f"{member.name}'s version_policy does not serve version {version}: the ensemble does not load"
        yield view.problem(message, at=place, severity=LintSeverity.ERROR)


def _latest_differ(view: ConfiguredModelView, latest: Sequence[StepBlock]) -> Iterator[LintProblem]:
    members = [view.named(step.model) for step in latest if step.model]
    newest = {member.name: _newest(member) for member in members if member}
    known = {version for version in newest.values() if version is not None}
    if len(known) > 1:
        listed = ", ".join(f"{name} {version}" for name, version in sorted(newest.items()) if version)
        yield view.problem(
            f"the latest versions of the members differ: {listed}",
            at=latest[0].block.at("model_name"),
            help="release members that belong together with the same version",
            severity=LintSeverity.INFO,
        )


def _newest(member: ModelFolder) -> int | None:
    return max(served(member) or (), default=None)


def _ensemble(*versions: int) -> str:
    written = "".join(
        f'  step {{ model_name: "{name}" model_version: {version} }}\n'
        for name, version in zip("ab", versions, strict=True)
    )
    return f'name: "all"\nplatform: "ensemble"\nensemble_scheduling {{\n{written}}}\n'


def _members(first: int, second: int) -> dict[str, str]:
    return {
        "models/a/config.pbtxt": 'name: "a"\nbackend: "python"\n',
        f"models/a/{first}/model.py": "",
        "models/a/1/model.py": "",
        "models/b/config.pbtxt": 'name: "b"\nbackend: "python"\n',
        f"models/b/{second}/model.py": "",
    }


CASES = (
    RuleCase.fires(
        "when a version is not served, missing, or the only one named",
        {"models/all/config.pbtxt": _ensemble(1, 3), **_members(2, 2)},
        "4:26",
        "5:26",
    ),
    RuleCase.fires(
        "when one step names a version and another takes the latest",
        {"models/all/config.pbtxt": _ensemble(2, -1), **_members(2, 2)},
        "4:26",
    ),
    RuleCase.fires(
        "when the latest versions differ", {"models/all/config.pbtxt": _ensemble(-1, -1), **_members(2, 1)}, "4:10"
    ),
    RuleCase.quiet(
        "when the latest versions are the same", {"models/all/config.pbtxt": _ensemble(-1, -1), **_members(2, 2)}
    ),
    RuleCase.quiet(
        "when no version exists, as with weights from elsewhere",
        {"models/all/config.pbtxt": _ensemble(2, 2), "models/a/config.pbtxt": 'name: "a"\n'},
    ),
)
