"""The same rules for those who install them otherwise: a PrometheusRule of the operator, and a monitoring mixin."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from diagnostics.gen.yaml_text import Tree

NAME = "triton-diagnostics"
PROMETHEUS_RULE = "prometheusrule.yaml"
# Stands for the address of the runbooks, which a mixin leaves to its user.
RUNBOOKS = "@runbooks"
_RUNBOOK = re.compile(rf'"{RUNBOOKS}/([^"]+)"')
DASHBOARDS = ("anatomy", "engine", "gpu", "model", "overview", "service", "slo")
_MIXIN = """{
  _config+:: {
    // Where you publish the folder of the runbooks.
    runbooks: 'runbooks',
  },
  prometheusRules+:: {
    groups+: %s,
  },
  prometheusAlerts+:: {
    groups+: %s,
  },
  grafanaDashboards+:: {
%s  },
}
"""


def prometheus_rule(groups: Sequence[Tree]) -> Tree:
    """Return the custom resource of the Prometheus operator; its labels are those that an operator may select by."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": NAME, "role": "alert-rules"}},
        "spec": {"groups": list(groups)},
    }


def kustomization(*resources: str) -> Tree:
    """Return what lets `kubectl apply -k` take these files of the folder, and other kustomizations the folder."""
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(resources)}


def mixin(recordings: Sequence[Tree], alerts: Sequence[Tree]) -> str:
    """Return the mixin as Jsonnet; the runbooks' address of `alerts` must be `RUNBOOKS`."""
    boards = "".join(f"    'diag-{name}.json': import '../../dashboards/diag-{name}.json',\n" for name in DASHBOARDS)
    return _MIXIN % (_jsonnet(recordings), _RUNBOOK.sub(r'$._config.runbooks + "/\1"', _jsonnet(alerts)), boards)


def _jsonnet(groups: Sequence[Tree]) -> str:
    return json.dumps(groups, indent=2, ensure_ascii=False).replace("\n", "\n    ")
