"""A waiver gives no reason, so it has no effect.

## Looks for
`# diag: ignore[rule-id]` without text after it.

## Means
Later, nobody can judge whether the problem is still acceptable.

## Do
Write the reason after the bracket: `# diag: ignore[no-warm-up] loaded once a week, before traffic`.

## Sources
`diag lint` itself: somebody else will have to review each waiver.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import LintTopic, Rule, RuleCase, RuleScope, WaiverView

RULE = Rule(scope=RuleScope.WAIVER, severity=LintSeverity.WARNING, question=LintTopic.READABLE)


def lint(view: WaiverView) -> Iterator[LintProblem]:
    """Report a waiver without a reason."""
    if not view.waiver.reason:
        message = f"the waiver of {view.waiver.rule} gives no reason, so it waives nothing"
        yield view.problem(message, at=view.waiver.place, help="write the reason behind the bracket")


CASES = (
    RuleCase.fires("when nothing follows the bracket", 'name: "a"  # diag: ignore[no-warm-up]\n', "1:12"),
    RuleCase.quiet(
        "with a reason, and about other comments",
        '# diag\nname: "a"  # diag: ignore[no-warm-up] loaded before traffic\n',
    ),
)
