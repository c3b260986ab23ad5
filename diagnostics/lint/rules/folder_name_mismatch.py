"""A model's folder has another name than its configuration says, so the model does not load.

## Looks for
`name` in a configuration that is neither empty nor that of the folder around it.

## Means
The server refuses the model at load: "directory name must equal model name". Copies of a folder often keep the name.

## Do
Rename the one or the other, or leave `name` out: the folder's name is then the model's. Where the folder is renamed at
deployment, or loaded under a name that is mapped to it, waive this.

## Sources
Triton core, `model_repository_manager.cc` (`InitializeModelInfo`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import Problem, Severity
from diagnostics.lint.rule import Case, ModelView, Question, Rule, Scope

RULE = Rule(scope=Scope.ANY_MODEL, severity=Severity.ERROR, question=Question.FITS)


def lint(see: ModelView) -> Iterator[Problem]:
    """Tell of a name that is not the folder's; one that is not known yet, as a template's, is none."""
    name, folder = see.config.text("name"), see.model.name
    if name and name != folder:
        yield see.problem(
            f"the model is called {name!r}, its folder {folder!r}: it does not load",
            at=see.config.at("name"),
            help=f'write name: "{folder}", or rename the folder',
        )


CASES = (
    Case(
        title="speaks when a folder was copied and its name kept",
        files={"models/b/config.pbtxt": 'backend: "python"\nname: "a"\n'},
        places=("models/b/config.pbtxt:2:1",),
    ),
    Case(
        title="is silent when the names are one, none is written, or it is a template",
        files={
            "models/a/config.pbtxt": 'name: "a"\nbackend: "python"\n',
            "models/b/config.pbtxt": 'backend: "python"\n',
            "models/c/config.pbtxt": 'name: "${name}"\nbackend: "python"\n',
        },
    ),
)
