"""A model that can batch executes requests one by one.

## Looks for
A `max_batch_size` above 1 without `dynamic_batching` or `sequence_batching`. Engines of language models, which batch
inside, and decoupled models are left out. ONNX Runtime and TensorRT models get a dynamic batcher from the server, so
this is only `info` for them. With `--disable-auto-complete-config` they do not.

## Means
`max_batch_size` alone batches nothing: each request is one execution, however many wait.

## Do
Add `dynamic_batching { }`. With a delay of 0, the default, it never waits: a free instance takes all waiting requests.
Compare `diag explain` before and after: if execution time grows with the batch, batching gains nothing.

## Sources
Triton user guide, "Dynamic Batcher" and "Default Max Batch Size and Dynamic Batcher".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import is_engine
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.changes import ConfigChange, Setting

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.BATCHING)

_GETS_ONE = frozenset({"onnxruntime", "tensorrt"})


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report a model that batches without a batcher."""
    most, policy = view.model.max_batch_size, view.config.block("model_transaction_policy")
    batcher = [view.config.has(field) for field in ("dynamic_batching", "sequence_batching")]
    decoupled = policy is not None and policy.flag("decoupled") is not False
    if not most or most < 2 or batcher != [False, False] or is_engine(view.model) is not False or decoupled:
        return
    given = view.model.backend in _GETS_ONE
    yield view.problem(
        f"batches of up to {most} are possible, but no batcher forms them"
        + (" where the server completes no configurations" if given else ""),
        at=view.config.at("max_batch_size"),
        help="add dynamic_batching { }",
        fix=ConfigChange(model=view.model.name, settings=(Setting(path="dynamic_batching", value=True),)),
        severity=LintSeverity.INFO if given else None,
    )


_MODEL = 'name: "safety"\nbackend: "pytorch"\nmax_batch_size: 8\n'
_ENGINE = 'name: "llm"\nbackend: "tensorrtllm"\nmax_batch_size: 8\n'
CASES = (
    RuleCase.fires("without a dynamic batcher", {"models/safety/config.pbtxt": _MODEL}, "3:1"),
    RuleCase.quiet("with a dynamic batcher", {"models/safety/config.pbtxt": _MODEL + "dynamic_batching { }\n"}),
    RuleCase.quiet(
        "about engines, and models that do not batch",
        {"models/llm/config.pbtxt": _ENGINE, "models/safety/config.pbtxt": _MODEL.replace("8", "1")},
    ),
    RuleCase.quiet("when a template may become a batcher", {"models/safety/config.pbtxt": _MODEL + "${batcher}\n"}),
)
