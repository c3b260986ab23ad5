r"""A configuration begins with a byte order mark, so the model does not load.

## Looks for
The bytes EF BB BF before all else. Editors that save "UTF-8 with BOM" write them, and do not show them.

## Means
The server cannot parse the file: it stops at its first character.

## Do
Save it as UTF-8 without a byte order mark: `sed -i '1s/^\xef\xbb\xbf//' config.pbtxt`.

## Sources
protobuf, `text_format.cc` and `tokenizer.cc`. Seen on Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.READABLE)


_MARK = "\ufeff"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the mark."""
    if view.config.file.text.startswith(_MARK):
        message = "the file begins with a byte order mark: the model does not load"
        yield view.problem(message, at=view.config.file.place(0), help="save it as UTF-8 without one")


CASES = (
    RuleCase.fires("when the file begins with one", f'{_MARK}backend: "python"\n', "1:1"),
    RuleCase.quiet("when the file does not begin with one", 'backend: "python"\n# \ufeff\n'),
)
