"""An alert: its rule, and the situations in which it must fire, stay silent and resolve."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from diagnostics.gen.yaml_text import Tree
from diagnostics.slo.bins import stretches

PREFIX = "TritonDiag"
# A template of Prometheus that stands for the value of one label.
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_GIVEN = re.compile(r"\{\{ if \$labels\.(\w+) \}\}([^{}]*)\{\{ end \}\}")
_SHOWN = "{{ . | first | value | humanizePercentage }}"
_FIGURE = re.compile(
    rf"\{{\{{ with printf `[^`]*`[^{{}}|]*\| query \}}\}}([^{{}}]*){re.escape(_SHOWN)}([^{{}}]*)\{{\{{ end \}}\}}"
)
_LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Series over time, and what of an alert must fire then.

    Attributes:
        title: what happens, as the rest of a sentence about the alert.
        series: samples of each series, a minute apart, in promtool's notation.
        expect: for each minute at which to look, the labels of every alert that must fire.

    """

    title: str
    series: Mapping[str, str]
    expect: tuple[tuple[int, tuple[Mapping[str, str], ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alerting rule with what its unit test needs.

    Attributes:
        id: kebab-case id; names its runbook and its test.
        group: the file it is in, and the last part of its rule group's name.
        expr: PromQL.
        hold_minutes: how long `expr` must hold.
        keep_minutes: how long it goes on firing once `expr` no longer holds.
        severity: fixed for good, so that an escalation is not a new alert.
        summary, description: annotations; `{{ $labels.x }}` stands for a label.
        situations: in which it must fire, stay silent and resolve.
        share: the share that its description shows in these situations, as in `42%`; empty where it shows none.
        prefix: what its name begins with.
        labels: labels that the rule adds.

    """

    id: str
    group: str
    expr: str
    hold_minutes: int
    severity: str
    summary: str
    description: str
    situations: tuple[Situation, ...]
    keep_minutes: int = 0
    share: str = ""
    prefix: str = PREFIX
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The id in PascalCase behind the common prefix."""
        return self.prefix + _pascal_case(self.id)

    @property
    def group_name(self) -> str:
        """The name of its rule group."""
        return group_name(self.prefix, self.group)

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
            **({"keep_firing_for": f"{self.keep_minutes}m"} if self.keep_minutes else {}),
            "labels": {"severity": self.severity, **self.labels},
            "annotations": self.annotations(runbooks),
        }

    def expected(self, labels: Mapping[str, str], runbooks: str) -> Tree:
        """Return the alert as it fires on series with these labels, templates filled in."""
        own = {name: filled(text, labels) for name, text in self.labels.items()}
        texts = self.annotations(runbooks).items()
        return {
            "exp_labels": {"severity": self.severity, **labels, **own},
            "exp_annotations": {key: filled(text, labels, self.share) for key, text in texts},
        }


def alert_name(identifier: str) -> str:
    """Return the name of the alert of a check, or of another id in kebab-case."""
    return PREFIX + _pascal_case(identifier)


def group_name(prefix: str, group: str) -> str:
    """Return the name of a rule group: `triton-diag-gpu` for alerts named `TritonDiag…`."""
    return f"{_CAPITAL.sub('-', prefix).lower()}-{group}"


def filled(text: str, labels: Mapping[str, str], share: str = "") -> str:
    """Return the text as Prometheus shows it: templates of labels replaced, by nothing where the label is missing.

    `share` is what a figure of `share_of` shows; without it, its sentence is left out.
    """
    shown = _FIGURE.sub(lambda at: f"{at[1]}{share}{at[2]}" if share else "", text)
    shown = _LABEL.sub(lambda at: labels.get(at[1], ""), shown)
    return _GIVEN.sub(lambda at: at[2] if labels.get(at[1]) else "", shown)


def given(name: str, text: str) -> str:
    """Return the template of a text that is shown only with a label."""
    return f"{{{{ if $labels.{name} }}}}{text}{{{{ end }}}}"


def share_of(metric: str, names: Sequence[str], before: str, after: str) -> str:
    """Return the template of a share, in percent and between two texts: nothing where no series has these labels."""
    matchers = ",".join(f"{name}=%q" for name in names)
    values = " ".join(f"$labels.{name}" for name in names)
    return f"{{{{ with printf `{metric}{{{matchers}}}` {values} | query }}}}{before}{_SHOWN}{after}{{{{ end }}}}"


def label(name: str) -> str:
    """Return the template of a label."""
    return f"{{{{ $labels.{name} }}}}"


def series(metric: str, labels: Mapping[str, str]) -> str:
    """Return a series, or a selector, in PromQL's notation."""
    matchers = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{matchers}}}"


def _pascal_case(identifier: str) -> str:
    return "".join(part.capitalize() for part in identifier.split("-"))


# Between two points of one stretch lies one step; rounding must not tear it apart.
_SLACK = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One alert that would have fired: for whom, and from when to when, in Unix seconds."""

    labels: Mapping[str, str]
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it would have lasted."""
        return self.end - self.begin


def firings(
    labels: Mapping[str, str], times: Sequence[float], *, hold: float, step: float, keep: float = 0.0
) -> Iterator[Firing]:
    """Yield the firings of one series of an alert's expression.

    Args:
        labels: the series' labels.
        times: evaluations at which the expression held, ascending, Unix seconds.
        hold: seconds for which it must hold, the rule's `for`.
        step: seconds between evaluations. An alert ends with the first at which the expression no longer holds.
        keep: seconds for which it fires on from then, the rule's `keep_firing_for`.

    """
    firing: Firing | None = None
    for begin, last in stretches(times, _SLACK * step):
        end = last + step + keep
        if firing is not None and begin <= firing.end:
            firing = replace(firing, end=end)
        elif last - begin >= hold:
            if firing is not None:
                yield firing
            firing = Firing(labels=labels, begin=begin + hold, end=end)
    if firing is not None:
        yield firing
