"""The batcher may hold a request longer than its latency budget.

## Looks for
`max_queue_delay_microseconds` is compared with the latency budget in the settings. An error: one window uses up the
budget, or all windows of an ensemble's steps together do. A warning: a window uses half of it. Without a budget, a
window of 0.1 s or more is a warning. Engines have their own rule (`engine-batch-window`).

## Means
A request without company waits the whole window before it executes, again at each step of an ensemble.

## Do
Set the window to what the latency target leaves after the executions, or to 0. Under load, batches form while instances
are busy. The field's unit is microseconds. `latency_budget = "200ms"` in `.diag-lint.toml` sets the target.

## Sources
Triton user guide, "Delayed Batching". server#3321 (the window caused a queue of 200 ms at any load).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import is_engine
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import LintTopic, RepositoryView, Rule, RuleCase, RuleScope
from diagnostics.lint.settings import LintSettings
from diagnostics.lint.tensors import steps
from diagnostics.units import Limit, Unit

MOST_OF_BUDGET = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="a lone request waits the whole window; the other half is for execution, queue and network",
)
WITHOUT_BUDGET = Limit(
    value=0.1,
    unit=Unit.SECONDS,
    because="beyond a tenth of a second an answer is no longer felt to be immediate (Nielsen's limits), and the window "
    "is a part of it; such a value is often meant in ms",
)
RULE = Rule(
    scope=RuleScope.REPOSITORY,
    severity=LintSeverity.WARNING,
    question=LintTopic.BATCHING,
    limits={"share_of_budget": MOST_OF_BUDGET, "window": WITHOUT_BUDGET},
)

_FIELD = "max_queue_delay_microseconds"
_WITHOUT = "latency_budget in .diag-lint.toml sets your target"


def lint(view: RepositoryView) -> Iterator[LintProblem]:
    """Report each window that is too long, and ensembles whose windows add up."""
    windows = {name: window for name, model in view.repository.models.items() if (window := _window(model))}
    for name, window in windows.items():
        yield from _of_model(view, view.repository.models[name], window)
    budget = view.settings.latency_budget_seconds
    for model in view.repository.models.values() if budget else ():
        members = {step.model for step in steps(model.config)} if model.config else set()
        total = sum(windows.get(name or "", 0.0) for name in members)
        if budget and total >= budget > max((windows.get(name or "", 0.0) for name in members), default=0.0):
            yield view.problem(
                f"the batchers of its steps may hold a request {_shown(total)}, of a budget of {_shown(budget)}",
                at=model.place,
                severity=LintSeverity.ERROR,
            )


def _of_model(view: RepositoryView, model: ModelFolder, window: float) -> Iterator[LintProblem]:
    budget = view.settings.latency_budget_seconds
    limit = budget * MOST_OF_BUDGET.value if budget else WITHOUT_BUDGET.value
    batching = model.config.block("dynamic_batching") if model.config else None
    if window < limit or batching is None:
        return
    of = f", of a budget of {_shown(budget)}" if budget else ""
    yield view.problem(
        f"a request without company waits {_shown(window)} for others{of}",
        at=batching.at(_FIELD),
        help="shorten the window; its unit is microseconds" + ("" if budget else f"; {_WITHOUT}"),
        severity=LintSeverity.ERROR if budget and window >= budget else None,
    )


def _window(model: ModelFolder) -> float:
    """Return the batching window of a model in seconds; 0 without one, for engines, and where it is unknown."""
    batching = model.config.block("dynamic_batching") if model.config else None
    if batching is None or is_engine(model) is not False:
        return 0.0
    return (batching.integer(_FIELD) or 0) / 1e6


def _shown(seconds: float) -> str:
    return Unit.SECONDS.show(seconds)


def _model(name: str, window: str) -> dict[str, str]:
    text = f'name: "{name}"\nbackend: "pytorch"\ndynamic_batching {{ {_FIELD}: {window} }}\n'
    return {f"models/{name}/config.pbtxt": text}


_ENSEMBLE = (
    'name: "all"\nplatform: "ensemble"\nensemble_scheduling { step { model_name: "a" } step { model_name: "b" } }\n'
)
_BUDGET = LintSettings(latency_budget_seconds=0.2)
CASES = (
    RuleCase.fires("when a window is half of the budget", _model("a", "100000"), "3:20", settings=_BUDGET),
    RuleCase.fires(
        "when the windows of an ensemble add up to the budget",
        {**_model("a", "90000"), **_model("b", "110000"), "models/all/config.pbtxt": _ENSEMBLE},
        "models/all/config.pbtxt:1:1",
        "models/b/config.pbtxt:3:20",
        settings=_BUDGET,
    ),
    RuleCase.fires("on a window of 0.5 s without a budget", _model("a", "500000"), "3:20"),
    RuleCase.quiet("when the window is short", _model("a", "5000"), settings=_BUDGET),
    RuleCase.quiet("when the window is a template", _model("a", "${delay}"), settings=_BUDGET),
)
