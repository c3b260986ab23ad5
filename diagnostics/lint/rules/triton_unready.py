"""A Triton container in Kubernetes gets traffic or restarts before its models are loaded.

## Looks for
Containers that run `tritonserver` without a `readinessProbe`. Also those with a `livenessProbe` but neither
`startupProbe` nor `initialDelaySeconds`. KServe and Knative probe the port of a container without a readiness probe,
which is enough: Triton opens it once its models are loaded.

## Means
Without a readiness probe, traffic arrives before the models are loaded. Triton opens its ports only after all startup
models are loaded. A liveness probe without a startup probe keeps restarting a server that is still loading.

## Do
Probe `/v2/health/ready` for readiness and `/v2/health/live` for liveness. Add a `startupProbe` that allows for the
slowest load.

## Sources
Triton core, `server.cc` (startup models load before the endpoints start). Kubernetes, "Configure Liveness, Readiness
and Startup Probes". Knative, "Configuring probes" (a container without one is probed by TCP); KServe, the default of
raw deployments.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.deployment_files import Container, containers_of
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import FileView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.DEPLOYMENT_FILE, severity=LintSeverity.WARNING, question=LintTopic.DEPLOYMENT)


def lint(view: FileView) -> Iterator[LintProblem]:
    """Report probes that are missing."""
    for container in containers_of(view.documents):
        if container.kubernetes and container.runs_triton:
            yield from _probes(view, container)


def _probes(view: FileView, container: Container) -> Iterator[LintProblem]:
    place = view.find(container.image)
    liveness = container.tree.get("livenessProbe")
    if "readinessProbe" not in container.tree and not container.probed_by_kserve:
        yield view.problem(
            f"{container.name or 'Triton'} gets requests before its models are loaded: it has no readinessProbe",
            at=place,
            help="probe /v2/health/ready",
        )
    waits = isinstance(liveness, dict) and liveness.get("initialDelaySeconds")
    if liveness is not None and "startupProbe" not in container.tree and not waits:
        message = f"{container.name or 'Triton'} may be restarted while it loads: it has no startupProbe"
        yield view.problem(message, at=place, help="give it one that lasts as long as the slowest load")


_MANIFEST = """apiVersion: apps/v1
kind: Deployment
spec: { template: { spec: { containers: [
  { name: triton, image: "nvcr.io/nvidia/tritonserver:24.10-py3", args: [ tritonserver, --model-repository=/m ],
    livenessProbe: { httpGet: { path: /v2/health/live, port: 8000 } } } ] } } }
"""
_KSERVE = """apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
spec: { containers: [ { name: kserve-container, image: "nvcr.io/nvidia/tritonserver:24.10-py3",
  args: [ tritonserver, --model-store=/models ] } ] }
"""
CASES = (
    RuleCase.fires("when neither readiness nor startup is probed", {"triton.yaml": _MANIFEST}, "4:27", "4:27"),
    RuleCase.quiet(
        "when both are probed",
        {"triton.yaml": _MANIFEST.replace("livenessProbe:", "startupProbe: { }, readinessProbe: { }, livenessProbe:")},
    ),
    RuleCase.quiet(
        "about a container that is not Triton", {"triton.yaml": _MANIFEST.replace("tritonserver", "client")}
    ),
    RuleCase.quiet(
        "about the image of clients",
        {
            "sdk.yaml": _MANIFEST.replace("24.10-py3", "24.10-py3-sdk").replace(
                "args: [ tritonserver, --model-repository=/m ],", ""
            )
        },
    ),
    RuleCase.quiet("where KServe probes", {"runtime.yaml": _KSERVE}),
)
