"""What people read in a chat channel, on a pager or in a mail: what users feel and the cause, then what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import EndToEnd, Finding
from diagnostics.diagnosis.incident import Incident
from diagnostics.render import phrases
from diagnostics.units import Unit, span
from exporters.sinks.links import Links, harmless, harmless_lines
from exporters.sinks.webhook import IncidentEvent, incident_json

# Discord takes 2,000 characters in all; a patch that is longer is read on the incident's page.
MOST_OF_A_TITLE, MOST_OF_A_TEXT, MOST_OF_A_PATCH = 250, 350, 800
# Characters that Markdown takes for emphasis and code. Slack knows no escapes, so they are replaced by look-alikes.
_STAND_INS = str.maketrans({"*": "∗", "`": "ˋ", "~": "∼"})
Json = dict[str, Any]


def notification(reported: IncidentEvent, incident: Incident, explanation: Explanation | None, links: Links) -> Json:
    """Return a message: `title` can be read alone, `text` is Markdown, `link` leads to the incident.

    `explanation` is the newest; without one the message says nothing of latency and of patches.
    """
    found = explanation.findings if explanation else ()
    finding = next((one for one in found if one.id == incident.fingerprint), None)
    parts = _ended(incident) if reported is IncidentEvent.CLOSED else _cause(incident, finding)
    link = links.incident(incident.id)
    return {
        "change": reported.value,
        "deployment": harmless(incident.deployment),
        "incident": incident_json(incident),
        "title": harmless(_first_line(reported, incident, explanation, finding), MOST_OF_A_TITLE).translate(_STAND_INS),
        "text": "\n\n".join([*parts, _links(incident, links)]),
        "link": link,
    }


def _links(incident: Incident, links: Links) -> str:
    named = {
        "Incident": links.incident(incident.id),
        "Picture": links.picture(incident.id),
        "Runbook": links.runbook(incident.check),
    }
    return " · ".join(f"[{name}]({url})" for name, url in named.items() if url)


def _first_line(
    reported: IncidentEvent, incident: Incident, explanation: Explanation | None, finding: Finding | None
) -> str:
    cause = phrases.cause_named(incident)
    felt = phrases.felt(explanation, finding, incident.subject) if explanation else ""
    if reported is IncidentEvent.CLOSED:
        # Without an explanation it ended while nobody looked.
        lasted = f" after {span((incident.closed or incident.seen) - incident.onset)}" if explanation else ""
        parts = (incident.deployment, f"{cause} ended{lasted}", f"now {felt}" if felt else "")
    else:
        parts = (incident.deployment, felt, cause)
    state = {
        IncidentEvent.OPENED: incident.severity.value,
        IncidentEvent.SEVERITY_CHANGED: f"now {incident.severity.value}",
        IncidentEvent.CLOSED: "ended",
    }
    return f"[{state[reported]}] {': '.join(part for part in parts if part)}"


def _cause(incident: Incident, finding: Finding | None) -> Iterator[str]:
    yield _sentence(incident.summary)
    if finding is None:
        return
    if finding.doubt:
        yield _sentence(f"{finding.doubt} Check the cause before you act on it")
    if finding.suggestion:
        yield f"**{finding.suggestion.remedy.value.capitalize()}:** {_sentence(finding.suggestion.text)}"
    if finding.advice and finding.advice.patch:
        patch = harmless_lines(finding.advice.patch.text, MOST_OF_A_PATCH).replace("```", "ˋˋˋ")
        yield f"```\n{patch.rstrip()}\n```"
    if isinstance(finding.effect, EndToEnd):
        yield _sentence(phrases.end_to_end(finding))


def _ended(incident: Incident) -> Iterator[str]:
    because = f"It ended because {incident.ending.reported}" if incident.ending else "It has ended"
    worst = f". At its worst it cost {Unit.RATIO.show(incident.peak)}" if incident.peak > 0 else ""
    yield _sentence(f"{because}{worst}{' of latency or requests' if worst else ''}")


def _sentence(text: str) -> str:
    return harmless(text.rstrip("."), MOST_OF_A_TEXT).translate(_STAND_INS) + "."
