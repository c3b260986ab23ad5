"""A file or folder could not be read, so it was not checked.

## Looks for
Any of these:
- A `config.pbtxt` that is no text (binary, or not UTF-8), or larger than 4 MiB.
- A link to nothing.
- A folder or file that the current user may not read. Deployment files in invalid YAML or JSON are only `info`: they
  may be unrelated.

## Means
A configuration that is not UTF-8 text does not load. A file without read permission may be right or wrong: it was not
linted.

## Do
Grant read permission, or correct the file. `pip install 'triton-diagnostics[lint]'` reads YAML.

## Sources
Triton core, `filesystem.cc` (`ReadTextProto`). protobuf, "Text Format Language Specification": text is UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.model_folder import CONFIG
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.repository import DEPLOYMENT_FILES, Difficulty
from diagnostics.lint.rule import Link, LintTopic, Rule, RuleCase, RuleScope, TroubleView

RULE = Rule(scope=RuleScope.READING, severity=LintSeverity.WARNING, question=LintTopic.READABLE)


def lint(view: TroubleView) -> Iterator[LintProblem]:
    """Report what could not be read."""
    trouble = view.trouble
    if trouble.difficulty is Difficulty.UNREADABLE:
        yield view.problem(trouble.message, at=trouble.place, help=trouble.help, severity=_severity(trouble.place.path))


def _severity(path: str) -> LintSeverity:
    """Return `error` for a model's configuration: unread, it must not pass for one that is well."""
    if path.rpartition("/")[2] == CONFIG:
        return LintSeverity.ERROR
    return LintSeverity.INFO if path.endswith(DEPLOYMENT_FILES) else LintSeverity.WARNING


_READ = 'name: "a"\n'
CASES = (
    RuleCase.fires(
        "when a configuration is binary",
        {"models/a/config.pbtxt": b"\x08\x01\x00\xff", "models/b/config.pbtxt": _READ},
        "1:1",
    ),
    RuleCase.fires("when a configuration is a link to nothing", Link(to="nowhere"), "1:1"),
    RuleCase.fires(
        "when a compose file is not YAML",
        {"models/a/config.pbtxt": _READ, "compose.yaml": "services: [\n"},
        "compose.yaml:1:1",
    ),
    RuleCase.quiet(
        "about readable files, and about YAML templates of a chart",
        {
            "models/a/config.pbtxt": _READ,
            "chart/service.yaml": "{{- if .Values.on }}\nkind: Service\n{{- end }}\n",
        },
    ),
)
