"""An alert: its rule, and the situations in which it must fire, stay silent and resolve."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from diagnostics.gen.yaml_text import Tree

PREFIX = "TritonDiag"
# A template of Prometheus that stands for the value of one label.
_LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alerting rule with what its unit test needs.

    Attributes:
        id: kebab-case id; names its runbook and its test.
        group: the file it is in, and its rule group.
        expr: PromQL.
        hold_minutes: how long `expr` must hold.
        severity: fixed for good, so that an escalation is not a new alert.
        summary, description: annotations; `{{ $labels.x }}` stands for a label.
        labels: labels of an example, as `expr` returns them.
        series: the example's series.
        bad, good: samples of that series while `expr` holds, and once it no longer does; `_` is no sample, `stale`
            the series' end.
        silent: series under which the alert must stay silent, with their constant sample.

    """

    id: str
    group: str
    expr: str
    hold_minutes: int
    severity: str
    summary: str
    description: str
    labels: Mapping[str, str]
    series: str
    bad: str
    good: str
    silent: Mapping[str, str]

    @property
    def name(self) -> str:
        """The id in PascalCase behind the common prefix."""
        return alert_name(self.id)

    def annotations(self, runbooks: str) -> dict[str, str]:
        """Return its annotations; `runbooks` is the address of the folder of the runbooks."""
        return {
            "summary": self.summary,
            "description": self.description,
            "runbook_url": f"{runbooks.rstrip('/')}/{self.id}.md",
        }

    def rule(self, runbooks: str) -> Tree:
        """Return the alerting rule."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": f"{self.hold_minutes}m",
            "labels": {"severity": self.severity},
            "annotations": self.annotations(runbooks),
        }

    def expected(self, runbooks: str) -> Tree:
        """Return the example as it fires, templates filled in."""
        texts = self.annotations(runbooks).items()
        return {
            "exp_labels": {"severity": self.severity, **self.labels},
            "exp_annotations": {key: filled(text, self.labels) for key, text in texts},
        }


def alert_name(identifier: str) -> str:
    """Return the name of the alert of a check, or of another id in kebab-case."""
    return PREFIX + "".join(part.capitalize() for part in identifier.split("-"))


def filled(text: str, labels: Mapping[str, str]) -> str:
    """Return the text as Prometheus shows it: templates of labels replaced, by nothing where the label is missing."""
    return _LABEL.sub(lambda at: labels.get(at[1], ""), text)


def label(name: str) -> str:
    """Return the template of a label."""
    return f"{{{{ $labels.{name} }}}}"


def series(metric: str, labels: Mapping[str, str]) -> str:
    """Return a series, or a selector, in PromQL's notation."""
    matchers = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{matchers}}}"
