"""Pages of the rules of `diag lint`, and the table of them by the question that each helps to answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from diagnostics.gen.markdown import table
from diagnostics.lint.catalogue import RegisteredRule
from diagnostics.lint.rule import LintTopic, RuleCase
from diagnostics.units import Limit

FOLDER = "lint"
_HEAD = """\
`diag lint REPOSITORY…` asks these of a model repository's files, without a server or a GPU. A problem is accepted where
it stands by `# diag: ignore[rule-id] reason`, and for paths or altogether in `.diag-lint.toml`.

- `error`: the model does not load, or surely fails.
- `warning`: likely slow or risky.
- `info`: worth knowing."""


def lint_pages(rules: Mapping[str, RegisteredRule]) -> dict[str, str]:
    """Return the table and a page per rule, by path below the output folder."""
    pages = {f"{FOLDER}/{found.id}.md": _page(found) for found in rules.values()}
    return {f"{FOLDER}/README.md": _table(rules.values()), **pages}


def _table(rules: Iterable[RegisteredRule]) -> str:
    parts = ["# Rules of diag lint", _HEAD]
    every = tuple(rules)
    for question in LintTopic:
        rows = [_row(found) for found in every if found.rule.question is question]
        if rows:
            parts += [f"## {question.value}", table(("rule", "severity", "about", "what it tells"), rows)]
    return "\n\n".join(parts) + "\n"


def _row(found: RegisteredRule) -> tuple[str, str, str, str]:
    rule = found.rule
    return f"[{found.id}]({found.id}.md)", rule.severity.value, rule.scope.value, found.title


def _page(found: RegisteredRule) -> str:
    rule = found.rule
    parts = [f"# {found.id}", f"{found.title}.", f"Severity: {rule.severity.value}. {rule.question.value}"]
    parts += [f"## {heading}\n{text}" for heading, text in found.sections().items()]
    parts += ["## Limits", _limits(rule.limits)] if rule.limits else []
    return "\n\n".join([*parts, *_cases(found.cases)]) + "\n"


def _limits(limits: Mapping[str, Limit]) -> str:
    rows = ((name, limit.unit.show(limit.value), limit.unit.value, limit.because) for name, limit in limits.items())
    return table(("value", "limit", "unit", "because"), rows)


def _cases(cases: Iterable[RuleCase]) -> Iterator[str]:
    yield "## Says and does not say"
    yield "\n".join(f"- It {case.title}." for case in cases)
