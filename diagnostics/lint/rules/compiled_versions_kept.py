"""Several compiled versions of a model stay in GPU memory together.

## Looks for
A TensorRT model that serves more than one of its existing versions (`version_policy` of `all`, `latest` above 1 or
`specific`).

## Means
Each version is a separate engine, compiled for one GPU and one release of TensorRT. It holds its memory even without
requests. Only stable, busy versions are worth it.

## Do
Serve only the latest version, which is the default. Keep a second one only while you change versions.

## Sources
`model_config.proto` (`ModelVersionPolicy`). TensorRT developer guide, "Version Compatibility" and "Hardware
Compatibility": engines are tied to both unless built otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.model_folder import served
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.INFO, question=LintTopic.COMPILED)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report a TensorRT model with several versions."""
    versions = served(view.model)
    if view.model.backend == "tensorrt" and versions is not None and len(versions) > 1:
        listed = ", ".join(map(str, sorted(versions)))
        yield view.problem(
            f"versions {listed} are engines of their own, all in GPU memory",
            at=view.config.at("version_policy"),
            help="serve the latest only, outside of a change",
        )


_MODEL = 'platform: "tensorrt_plan"\nversion_policy { all { } }\n'
_PLANS = {"models/a/1/model.plan": b"", "models/a/2/model.plan": b""}
CASES = (
    RuleCase.fires("when two versions are served", {"models/a/config.pbtxt": _MODEL, **_PLANS}, "2:1"),
    RuleCase.quiet("when the latest is served", {"models/a/config.pbtxt": _MODEL.partition("version")[0], **_PLANS}),
)
