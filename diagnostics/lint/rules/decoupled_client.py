"""A client calls a decoupled model at an address that takes only one answer.

## Looks for
Compose files and manifests use addresses such as `/v2/models/chat/infer` or `/v2/models/chat/generate`. There, `chat`
is a decoupled model of a linted repository, or an ensemble with a decoupled member.

## Means
`infer` over HTTP is refused for every request: "HTTP end point doesn't support models with decoupled transaction
policy". `generate` works only if the model answers each request exactly once.

## Do
Call `generate_stream`, or gRPC's `ModelStreamInfer`. Or set `decoupled: false` if each request has one answer.

## Sources
Triton, `protocol_extension/extension_generate.md`; user guide, "Decoupled Backends and Models". Seen on Triton 2.51.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from diagnostics.lint.engines import streams
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import FileView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.DEPLOYMENT_FILE, severity=LintSeverity.ERROR, question=LintTopic.DEPLOYMENT)

_ADDRESS = re.compile(r"/v2/models/([\w.\-]+)(?:/versions/\d+)?/(infer|generate)(?![\w\-])")


def lint(view: FileView) -> Iterator[LintProblem]:
    """Report each address."""
    known: dict[str, bool] = {}
    for found in _ADDRESS.finditer(view.file.text):
        name, verb = found.groups()
        if name not in known:
            known[name] = _streams(view, name)
        if known[name]:
            one = verb == "generate"
            what = "answers only where there is exactly one response" if one else "refuses every request"
            yield view.problem(
                f"{name} is decoupled: {verb} {what}",
                at=view.file.place(found.start()),
                help="ask generate_stream, or stream over gRPC",
                severity=LintSeverity.WARNING if one else None,
            )


def _streams(view: FileView, name: str) -> bool:
    """Return whether every model of this name streams, of whichever repository."""
    holders = [one for one in view.project.repositories if name in one.models]
    return bool(holders) and all(streams(one.models[name], one.models.get) for one in holders)


def _files(address: str) -> dict[str, str]:
    return {
        "models/llm/config.pbtxt": 'backend: "python"\nmodel_transaction_policy { decoupled: true }\n',
        "models/all/config.pbtxt": 'platform: "ensemble"\nensemble_scheduling { step { model_name: "llm" } }\n',
        "models/safety/config.pbtxt": 'backend: "python"\n',
        "compose.yaml": f"services:\n  load:\n    image: load\n    command: http://triton:8000{address}\n",
    }


CASES = (
    RuleCase.fires(
        "when a decoupled model is asked for one answer", _files("/v2/models/llm/versions/1/infer"), "compose.yaml:4:32"
    ),
    RuleCase.fires(
        "when an ensemble with a decoupled member is asked for one answer",
        _files("/v2/models/all/generate"),
        "compose.yaml:4:32",
    ),
    RuleCase.quiet("when the answers are streamed", _files("/v2/models/llm/generate_stream")),
    RuleCase.quiet("about a model that answers once", _files("/v2/models/safety/infer")),
    RuleCase.quiet("about an unknown model", _files("/v2/models/other/infer")),
)
