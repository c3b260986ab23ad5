"""A waiver has no effect: the problem is gone, or the rule does not exist.

## Looks for
`# diag: ignore[rule-id] reason` on a line where that rule reports nothing, or with an unknown rule.

## Means
It would hide the problem if it returns, for a reason that may no longer apply.

## Do
Remove it. If the problem is reported on another line, move the waiver there, or onto its own line before it.

## Sources
`diag lint` itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import LintTopic, Rule, RuleCase, RuleScope, WaiverView

RULE = Rule(scope=RuleScope.WAIVER, severity=LintSeverity.WARNING, question=LintTopic.READABLE)


def lint(view: WaiverView) -> Iterator[LintProblem]:
    """Report a waiver that is of no use."""
    if view.used:
        return
    rule = view.waiver.rule
    message = (
        f"{rule} reports nothing here, so the waiver has no effect" if view.known else f"there is no rule {rule!r}"
    )
    hint = "remove the waiver, or move it to the reported line" if view.known else "`diag lint --rules` lists them"
    yield view.problem(message, at=view.waiver.place, help=hint)


CASES = (
    RuleCase.fires(
        "when the rule reports nothing on that line", 'name: "a"  # diag: ignore[waiver-unused] why not\n', "1:12"
    ),
    RuleCase.fires("on an unknown rule", '# diag: ignore[no-such-rule] a slip of the pen\nname: "a"\n', "1:1"),
    RuleCase.quiet("about the same words in a string", 'name: "# diag: ignore[no-warm-up] x"\n'),
)
