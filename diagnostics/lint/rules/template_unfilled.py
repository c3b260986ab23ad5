"""A template field was not filled in.

## Looks for
`${…}` in a configuration, once per file. In place of a number, a flag or a field, it is an error. Within a string, as
in the TensorRT-LLM backend's parameters, it is only `info`.

## Means
The server refuses the file if a number or flag is still a template. A TensorRT-LLM parameter that is still a template
counts as unset. The backend's default applies, and only a log line shows it.

## Do
Run `fill_template.py`, or whatever fills the file at deployment. Lint the filled files, and waive this for templates.

## Sources
tensorrtllm_backend, `tools/fill_template.py` and `model_config.md`. protobuf, "Text Format Language Specification".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import Text, templates
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.WARNING, question=LintTopic.READABLE)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the first template of a file, and how many there are."""
    found = templates(view.config) if "${" in view.config.file.text else ()
    bare = [text for text in found if not text.written.startswith(('"', "'"))]
    if not found:
        return
    first = bare[0] if bare else found[0]
    more = f" ({len(found)} in the file)" if len(found) > 1 else ""
    what = "the file does not load before it is" if bare else "the backend takes it as unset"
    yield view.problem(
        f"{_shown(first)} is not filled in{more}: {what}",
        at=first.place,
        help="lint the filled file, or waive this for templates",
        severity=None if bare else LintSeverity.INFO,
    )


def _shown(text: Text) -> str:
    start = text.written.find("${")
    return text.written[start : text.written.find("}", start) + 1]


_STRING = 'name: "a"\nparameters { key: "p" value { string_value: "${p}" } }\n'
CASES = (
    RuleCase.fires("once for an unfilled number", _STRING + "max_batch_size: ${size}\n", "3:17"),
    RuleCase.fires("on an unfilled parameter", _STRING, "2:45"),
    RuleCase.quiet("when every field is filled in", _STRING.replace("${p}", "$5 {x}")),
)
