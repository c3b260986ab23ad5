"""An explanation as it is printed."""

from __future__ import annotations

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.render.explanation.document import explanation_document
from diagnostics.render.formats.markdown import write as as_markdown
from diagnostics.render.plain import Style, plain
from diagnostics.render.text import as_text


def text(explanation: Explanation, style: Style = plain, *, verbose: bool = False) -> str:
    """Return what `diag explain` prints."""
    return as_text(explanation_document(explanation, verbose=verbose), style)


def markdown(explanation: Explanation) -> str:
    """Return what `diag explain --output markdown` prints."""
    return as_markdown(explanation_document(explanation))
