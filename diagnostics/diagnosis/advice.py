"""A suggestion's change as a patch of the file at hand, or of the configuration in effect."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.checks.check import Suggestion
from diagnostics.diagnosis.applying import Steps, steps
from diagnostics.errors import DiagError
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.subject import Subject
from diagnostics.tuning.changes import BlastRadius, blast_radius
from diagnostics.tuning.patch import Patch, patch


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """How to apply a suggestion.

    Attributes:
        patch: what to apply; None when no setting does it or no text could be made.
        blast_radius: what applying it does to the running server; None without a setting.
        note: why there is no patch, or what to know before applying it; may be empty.
        steps: how to apply and undo it, and what that touches; None without a setting.

    """

    patch: Patch | None
    blast_radius: BlastRadius | None
    note: str = ""
    steps: Steps | None = None


def advice(evidence: Evidence, on: Subject, suggestion: Suggestion) -> Advice | None:
    """Return how to apply a suggestion; None when it changes no setting."""
    change = suggestion.change
    if change is None or on.model is None:
        return None
    config = evidence.config(on)
    radius = blast_radius(change, backend=config.backend or config.platform if config else "")
    path = f"{on.model}/config.pbtxt"
    try:
        made = patch(change, file_text=evidence.config_file(on), path=path, effective=config)
    except DiagError as error:
        return Advice(patch=None, blast_radius=radius, note=str(error))
    shown, engine = made if made.text else None, evidence.is_engine(on)
    how = steps(change, shown, radius, config, engine=engine)
    return Advice(patch=shown, blast_radius=radius, note="; ".join(made.notes), steps=how)
