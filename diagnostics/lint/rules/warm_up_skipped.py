"""A warm-up never runs, or makes the model fail to load.

## Looks for
A sample of `model_warmup` without a `batch_size` of at least 1; one above `max_batch_size`; one with an input whose
size is left variable; and one that leaves out an input that the model needs.

## Means
The server skips a sample of batch size 0, which is the default, and says so only in its verbose log: the model is as
cold as without. A sample that is no valid request makes the model fail to load.

## Do
Give every sample a `batch_size`, whole sizes, and every input that is not `optional`.

## Sources
Triton core, `backend_model_instance.cc` (`GenerateWarmupData`). User guide, "Model Warmup".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import Block
from diagnostics.lint.problem import Problem, Severity
from diagnostics.lint.rule import Case, ModelView, Question, Rule, Scope
from diagnostics.lint.tensors import tensors

RULE = Rule(scope=Scope.MODEL, severity=Severity.ERROR, question=Question.WARM)


def lint(see: ModelView) -> Iterator[Problem]:
    """Tell of each sample that is skipped or refused."""
    for sample in see.config.blocks("model_warmup"):
        size, most = sample.integer("batch_size"), see.model.max_batch_size
        if size == 0:
            message = "the server skips a warm-up sample without a batch_size: it never runs"
            yield see.problem(message, at=sample.place, help="set batch_size: 1", severity=Severity.WARNING)
            continue
        if size and most is not None and size > max(most, 1):
            message = f"a warm-up of {size} is larger than max_batch_size, {most}: the model does not load"
            yield see.problem(message, at=sample.at("batch_size"))
        yield from _inputs(see, sample)


def _inputs(see: ModelView, sample: Block) -> Iterator[Problem]:
    entries = sample.blocks("inputs")
    for entry in entries:
        value = entry.block("value")
        if value is not None and any(size < 0 for size in value.integers("dims") or ()):
            message = f"the size of {entry.text('key')!r} is variable in a warm-up: the model does not load"
            yield see.problem(message, at=value.at("dims"))
    given = {entry.text("key") for entry in entries}
    needed = {tensor.name for tensor in tensors(see.config, "input") or () if tensor.optional is False}
    missing = needed - given if sample.complete and None not in given else ()
    if missing:
        yield see.problem(
            f"the warm-up lacks {', '.join(sorted(missing))}: the model does not load",
            at=sample.place,
        )


def _model(sample: str) -> dict[str, str]:
    head = 'backend: "pytorch"\nmax_batch_size: 8\ninput [ { name: "X" dims: 4 }, { name: "O" optional: true } ]\n'
    return {"models/a/config.pbtxt": f"{head}model_warmup [ {{ {sample} }} ]\n"}


_X = 'inputs { key: "X" value { data_type: TYPE_FP32 dims: 4 zero_data: true } }'
CASES = (
    Case(
        title="speaks when a sample has no batch size",
        files=_model(_X),
        places=("models/a/config.pbtxt:4:16",),
    ),
    Case(
        title="speaks when a sample is too large, of variable size and lacks an input",
        files=_model('batch_size: 9 inputs { key: "Y" value { dims: -1 } }'),
        places=(
            "models/a/config.pbtxt:4:16",
            "models/a/config.pbtxt:4:18",
            "models/a/config.pbtxt:4:58",
        ),
    ),
    Case(title="is silent about a whole sample", files=_model("batch_size: 8 " + _X)),
    Case(title="is silent about templates", files=_model("batch_size: ${size} ${inputs}")),
)
