"""Triton starts with options for debugging, not for serving.

## Looks for
Compose files or Kubernetes manifests start Triton with `--log-verbose` of 1 or more, or `--trace-config rate=1` (every
request). Or with `summary_latencies=true` or `--model-control-mode=poll`.

## Means
Verbose logs and a trace of every request cost time per request. Summaries cost most on small, busy models. In poll
mode, the server loads half-copied files, and a changed file reloads a model under load.

## Do
Keep `rate` at 100 or more, unless you search for a cause. Leave out verbose logs and summaries: histograms are cheaper.
Use explicit mode, and let your deployment request loads.

## Sources
Triton user guide, "Model Management" (poll mode is not recommended for production) and "Trace". server#8561 (summaries
took a third of the throughput).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from diagnostics.lint.deployment_files import containers_of
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import FileView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.DEPLOYMENT_FILE, severity=LintSeverity.WARNING, question=LintTopic.DEPLOYMENT)

_COSTLY = (
    (re.compile(r"--log-verbose[= ]([1-9]\d*|true)\b"), "each request writes lines of log"),
    (re.compile(r"--trace-config[= ]rate=1(?!\d)"), "every request is traced"),
    (re.compile(r"--trace-rate[= ]1(?!\d)"), "every request is traced"),
    (re.compile(r"summary_latencies=true"), "summaries cost each request"),
    (re.compile(r"--model-control-mode[= ]poll\b"), "half copied models are loaded, and loads happen under load"),
)


def lint(view: FileView) -> Iterator[LintProblem]:
    """Report each such flag."""
    for container in containers_of(view.documents):
        command = " ".join(container.words) if container.runs_triton else ""
        for pattern, why in _COSTLY:
            match = pattern.search(command)
            if match:
                flag = match[0].split(" ")[0] if " " in match[0] else match[0]
                yield view.problem(f"{match[0]}: {why}", at=view.find(flag), help="leave it out where users are served")


_COMPOSE = """services:
  triton:
    image: nvcr.io/nvidia/tritonserver:24.10-py3
    command: tritonserver --model-repository=/models --log-verbose 1 --model-control-mode=poll
"""
CASES = (
    RuleCase.fires("for verbose logs and of polling", {"compose.yaml": _COMPOSE}, "4:54", "4:70"),
    RuleCase.quiet(
        "about options for serving",
        {
            "compose.yaml": _COMPOSE.replace("verbose 1", "verbose 0").replace(
                "poll", "explicit --trace-config rate=100"
            )
        },
    ),
)
