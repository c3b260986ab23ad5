"""What alerts and webhooks say of a finding beside its cause: what to do, the patch, and what it would change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from diagnostics.diagnosis.finding import EndToEnd, Finding
from diagnostics.render.phrases import end_to_end, predicted, remedy
from exporters.sinks.links import harmless, harmless_lines

# A patch that is longer is read on the incident's page.
MOST_OF_A_PATCH = 2_000


def suggested(finding: Finding | None) -> dict[str, str]:
    """Return `suggestion`, `patch` and `prediction`; empty texts where one is not known, none without a suggestion."""
    suggestion = finding.suggestion if finding else None
    if finding is None or suggestion is None:
        return {}
    made = finding.advice.patch if finding.advice else None
    return {
        "suggestion": harmless(remedy(suggestion)),
        "patch": harmless_lines(made.text, MOST_OF_A_PATCH) if made else "",
        "prediction": harmless("; ".join(_predicted(finding))),
    }


def _predicted(finding: Finding) -> Iterator[str]:
    """Yield what the suggestion would do end to end, where that was forecast, and to its stage."""
    of_stage = finding.suggestion.prediction if finding.suggestion else None
    if isinstance(finding.effect, EndToEnd):
        yield end_to_end(finding)
        of_stage = of_stage and replace(of_stage, unless="")  # said of the whole already
    if of_stage:
        yield predicted(of_stage)
