"""No version can be served: a folder is missing or empty, or the version policy leaves none.

## Looks for
Any of these:
- `latest` without a `num_versions` of at least 1.
- `specific` without versions.
- `specific` whose versions all lack a folder, although other versions have one.
- An empty folder of the latest version, if the backend loads its model from there.
- No version folder, if other models of the repository have theirs. For a backend other than Python this is a warning:
  its files may be made at deployment. An ensemble is a matter of `ensemble-without-version`.

## Means
The server refuses the model at load: "at least one version must be available under the version policy", or "no version
is available". `latest { }` does not mean the latest version, but the latest 0 versions. With an empty folder, the load
fails. For a Python model, it never ends.

## Do
Put the model into the folder `1`. Set how many versions, or which, to serve. Or remove `version_policy`, which serves
the latest.

## Sources
Triton core, `model_repository_manager.cc` (`VersionsToLoad`); `model_config.proto` (`ModelVersionPolicy`). Seen on
Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.model_folder import LOADED_FROM_FOLDER
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report a policy that serves nothing."""
    policy = view.config.block("version_policy")
    yield from _without_folder(view)
    if policy is None:
        yield from _empty(view)
    latest, specific = (policy.block("latest"), policy.block("specific")) if policy else (None, None)
    if latest is not None and latest.integer("num_versions") == 0:
        help_ = "write num_versions: 1, or leave version_policy out"
        yield view.problem("the latest 0 versions are served: the model does not load", at=latest.place, help=help_)
    if specific is not None:
        yield from _of_specific(view, specific)


def _without_folder(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report a model without a version where others have theirs: configurations alone are no whole repository."""
    if view.model.versions or view.model.ensemble or not any(one.versions for one in view.repository.models.values()):
        return
    code = view.model.backend == names.PYTHON_BACKEND
    yield view.problem(
        f"{view.model.name} has no version folder: the model does not load",
        at=view.model.place,
        help=f"put the model into {view.model.name}/1" + ("" if code else ", or make the folder at deployment"),
        severity=None if code else LintSeverity.WARNING,
    )


def _empty(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report a latest version without a file; version control keeps no empty folder, so nothing is to come there."""
    latest = max(view.model.versions, default=None)
    if latest is not None and view.model.backend in LOADED_FROM_FOLDER and not view.model.version_files(latest):
        yield view.problem(
            f"the folder of version {latest} is empty: the model does not load",
            at=view.model.place,
            help=f"put the model into {view.model.name}/{latest}, or remove that folder",
        )


def _of_specific(view: ConfiguredModelView, specific: ConfigMessage) -> Iterator[LintProblem]:
    listed, there = specific.integers("versions"), view.model.versions
    if listed is None:
        return
    if not listed:
        yield view.problem("version_policy lists no version: the model does not load", at=specific.place)
    elif there and not set(listed) & set(there):
        wanted, have = (", ".join(map(str, versions)) for versions in (listed, there))
        message = f"version_policy requests {wanted}, but only {have} is there: the model does not load"
        yield view.problem(message, at=specific.at("versions"))


def _model(policy: str) -> dict[str, str]:
    text = f'backend: "python"\nversion_policy {{ {policy} }}\n'
    return {"models/a/config.pbtxt": text, "models/a/2/model.py": ""}


CASES = (
    RuleCase.fires("when the latest 0 versions are served", _model("latest { }"), "models/a/config.pbtxt:2:25"),
    RuleCase.fires("when a list is empty", _model("specific { versions: [ ] }"), "models/a/config.pbtxt:2:27"),
    RuleCase.fires(
        "when no version of the list exists", _model("specific { versions: [ 1, 3 ] }"), "models/a/config.pbtxt:2:29"
    ),
    RuleCase.fires(
        "when a model has no version folder, though another has",
        {"models/b/config.pbtxt": 'backend: "python"\n', **_model("latest { num_versions: 1 }")},
        "1:1",
    ),
    RuleCase.quiet("when one of them exists", _model("specific { versions: [ 1, 2 ] }")),
    RuleCase.quiet(
        "about templates, and when no version exists at all",
        {
            "models/b/config.pbtxt": "version_policy { specific { versions: 7 } }\n",
            "models/a/config.pbtxt": "version_policy { latest { num_versions: ${n} } }\n",
        },
    ),
)
