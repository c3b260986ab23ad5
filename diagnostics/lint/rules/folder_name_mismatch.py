"""A model's folder and its configuration have different names, so the model does not load.

## Looks for
A `name` that is neither empty nor the name of its folder. A folder below the given one, without versions next to it,
counts as a sample and is not reported.

## Means
The server refuses the model at load: "directory name must equal model name". Copied folders often keep the name.

## Do
Rename one of them, or remove `name`: the folder's name then applies. If the folder is renamed or mapped at deployment,
waive this.

## Sources
Triton core, `model_repository_manager.cc` (`InitializeModelInfo`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report a name that is not the folder's; one that is not known yet, as a template's, is none."""
    name, folder = view.config.text("name"), view.model.name
    if name and name != folder and not _is_sample(view):
        yield view.problem(
            f"the model is called {name!r}, its folder {folder!r}: it does not load",
            at=view.config.at("name"),
            help=f'write name: "{folder}", or rename the folder',
        )


def _is_sample(view: ConfiguredModelView) -> bool:
    """Return whether it is a file of a source tree that is copied to where it is served: nothing there has versions."""
    return not view.repository.named and not any(model.versions for model in view.repository.models.values())


CASES = (
    RuleCase.fires(
        "when a folder was copied and its name kept",
        {"models/b/config.pbtxt": 'backend: "python"\nname: "a"\n', "models/b/1/model.py": ""},
        "2:1",
    ),
    RuleCase.quiet(
        "when the names match, or the name is missing or a template",
        {
            "models/a/config.pbtxt": 'name: "a"\nbackend: "python"\n',
            "models/b/config.pbtxt": 'backend: "python"\n',
            "models/c/config.pbtxt": 'name: "${name}"\nbackend: "python"\n',
            "samples/c/config.pbtxt": 'name: "resnet"\nbackend: "python"\n',
        },
    ),
)
