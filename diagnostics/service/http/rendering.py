"""An explanation in the form that was asked for: as `diag explain --output` prints it."""

from __future__ import annotations

from enum import StrEnum

from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.render.explanation.document import explanation_document
from diagnostics.render.explanation.html import html
from diagnostics.render.explanation.json import report
from diagnostics.render.formats.markdown import write as as_markdown
from diagnostics.render.plain import Style, plain
from diagnostics.render.text import as_text
from diagnostics.service.http.problems import JsonAnswer

# What terminals know of the colours that texts are given (ECMA-48, 8.3.117).
_COLOURS = {"red": 31, "green": 32, "yellow": 33, "cyan": 36}


# Names of headers, and what they hold.
HEADERS = {
    "Diag-Verdict": "The verdict.",
    "Diag-Severities": "Of the findings in their order, with commas between them; empty for none.",
    "Diag-Current": "false where no server of the deployment answers any more: it is their last state.",
    "Diag-Window-To": "Unix seconds at which the window ends; 0 where nothing was read.",
}


class Output(StrEnum):
    """How an explanation is written."""

    JSON = "json"
    TEXT = "text"
    BRIEF = "brief"
    COLOURED = "coloured"
    MARKDOWN = "markdown"
    HTML = "html"


def rendered(explanation: Explanation, output: Output, *, colour: bool = False) -> Response:
    """Return the explanation as an answer; `brief` has about 40 lines, `colour` gives it those of a terminal.

    Its headers say the same in each form: whoever prints a text need not ask again what it says.
    """
    answer = _written(explanation, output, _coloured if colour else plain)
    for name, value in zip(HEADERS, _heads(explanation), strict=True):
        answer.headers[name] = value
    return answer


def _heads(explanation: Explanation) -> tuple[str, str, str, str]:
    severities = ", ".join(finding.severity.value for finding in explanation.findings)
    current = "false" if explanation.stale else "true"
    return explanation.verdict.value, severities, current, str(explanation.window.end)


def _written(explanation: Explanation, output: Output, style: Style) -> Response:
    match output:
        case Output.JSON:
            return JsonAnswer(report(explanation))
        case Output.TEXT:
            return PlainTextResponse(as_text(explanation_document(explanation)))
        case Output.BRIEF:
            return PlainTextResponse(as_text(explanation_document(explanation, verbose=False), style))
        case Output.COLOURED:
            return PlainTextResponse(as_text(explanation_document(explanation), _coloured))
        case Output.MARKDOWN:
            return PlainTextResponse(as_markdown(explanation_document(explanation)), media_type="text/markdown")
        case Output.HTML:
            return HTMLResponse(html(explanation))


def _coloured(line: str, colour: str) -> str:
    code = _COLOURS.get(colour)
    return f"\033[{code}m{line}\033[0m" if code else line
