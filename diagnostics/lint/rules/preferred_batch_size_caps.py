"""Preferred batch sizes keep batches smaller than they could be.

## Looks for
A largest `preferred_batch_size` below `max_batch_size`, or a preferred size of 1 with a window. Engines are left out.

## Means
The batcher sends a batch as soon as it has a preferred size. It adds no request beyond the largest of them. Without a
window, it never does. A preferred size of 1 sends the first request alone, so a window has no effect.

## Do
Remove `preferred_batch_size`. Keep it only if the backend is much faster at these sizes. An example is a TensorRT
engine with one optimization profile per size. In that case, make the largest preferred size
equal to `max_batch_size`.

## Sources
Triton core, `dynamic_batch_scheduler.cc` (`GetDynamicBatch`). User guide, "Preferred Batch Sizes": most models should
not set it.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import is_engine
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.changes import ConfigChange, Setting

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.BATCHING)

_FIELD = "preferred_batch_size"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report preferred sizes that end batches early."""
    batching, most = view.config.block("dynamic_batching"), view.model.max_batch_size
    sizes = batching.integers(_FIELD) if batching else None
    if batching is None or not sizes or not most or is_engine(view.model) is not False:
        return
    if 1 in sizes and most > 1 and batching.integer("max_queue_delay_microseconds"):
        message = f"{_FIELD} 1 sends every first request alone: the window has no effect"
    elif 0 < max(sizes) < most:
        message = f"batches end at the largest {_FIELD}, {max(sizes)}, although {most} are possible"
    else:
        return
    setting = Setting(path=f"dynamic_batching.{_FIELD}", value=None)
    yield view.problem(
        message,
        at=batching.at(_FIELD),
        help="remove it: the batcher then prefers the largest batch",
        fix=ConfigChange(model=view.model.name, settings=(setting,)),
    )


def _model(batching: str) -> str:
    return f'name: "a"\nbackend: "pytorch"\nmax_batch_size: 64\ndynamic_batching {{ {batching} }}\n'


CASES = (
    RuleCase.fires(
        "when the largest size is below the maximum batch", _model("preferred_batch_size: [ 4, 8 ]"), "4:20"
    ),
    RuleCase.fires(
        "when 1 is preferred and a window is set",
        _model("preferred_batch_size: [1, 64] max_queue_delay_microseconds: 100"),
        "4:20",
    ),
    RuleCase.quiet("when the maximum batch is preferred, too", _model("preferred_batch_size: [ 32, 64 ]")),
    RuleCase.quiet("when a size is a template", _model("preferred_batch_size: [ 4, ${size} ]")),
)
