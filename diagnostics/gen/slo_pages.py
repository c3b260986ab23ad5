"""What goes with the rules of objectives: an example with its rules, and the runbooks of their alerts."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics.gen.runbook_pages import plain_page
from diagnostics.gen.slo_rules import rules_text
from diagnostics.gen.symptom import Runbook
from diagnostics.slo.slo import Promise, Slo, Triton

EXAMPLE = (
    Slo(
        name="chat-latency",
        objective=0.99,
        sli=Triton(promise=Promise.LATENCY, model="chat", seconds=0.5),
        description="Nine and ninety of a hundred answers come within half a second.",
    ),
    Slo(
        name="chat-availability",
        objective=0.999,
        sli=Triton(promise=Promise.AVAILABILITY, model="chat"),
        description="One of a thousand requests may fail.",
    ),
)
_OBJECTIVES = """\
slo:
  - name: chat-latency
    objective: 0.99
    ensemble: chat
    latency: 500ms
    description: Nine and ninety of a hundred answers come within half a second.
  - name: chat-availability
    objective: 0.999
    ensemble: chat
    availability: true
    description: One of a thousand requests may fail.
"""
_WHY = (
    "Run `diag slo`: it says how much of the budget is spent, until when it lasts, and which causes took it.",
    "Open the incidents that it names, or run `diag explain` on the servers: each has its evidence and its patch.",
)
RUNBOOKS: Mapping[str, Runbook] = {
    "slo-burns-fast": Runbook(
        meaning="A promise is being broken so fast that the budget of the whole period is gone within days. Both the "
        "long and the short window of the alert burn, and more events are bad than chance brings.",
        impact="Users are hurt now: requests fail, or wait longer than was promised.",
        diagnosis=_WHY,
        mitigation=("Apply the patch of the cause that takes most, or take load off until you can.",),
    ),
    "slo-burns-slowly": Runbook(
        meaning="A promise is broken a little more often than allowed, for hours or days: the budget will not last.",
        impact="Few users notice, but nothing is left for the next incident.",
        diagnosis=_WHY,
        mitigation=("Plan the change that `diag slo` puts first; where nothing explains it, review the objective.",),
    ),
    "slo-unmeasured": Runbook(
        meaning="Nothing says how many requests an objective is about, for half an hour by now.",
        impact="Its burn alerts cannot fire, whatever happens.",
        diagnosis=(
            "Does `diag serve` run, and does Prometheus scrape it?",
            "Does it have the objective in its settings (`[[slo]]` or `slo_files`), under the same name?",
            "Does any of its servers hold the model that the objective names?",
        ),
        mitigation=("Mend what is missing; rules of an objective that is no longer wanted are to be removed.",),
    ),
}


def slo_files(runbooks: str) -> dict[str, str]:
    """Return the example and the runbooks by path; `runbooks` is where the runbooks are published."""
    return {"slo/example-rules.yaml": rules_text(EXAMPLE, runbooks), "slo/example.yaml": _OBJECTIVES}


def slo_runbooks() -> dict[str, str]:
    """Return the runbooks by id."""
    return {identifier: plain_page(identifier, page) for identifier, page in RUNBOOKS.items()}
