"""A model, or its new version, could not be loaded.

## Looks for
Versions that the repository index calls UNAVAILABLE with a reason, and loads that the log calls failed and that no
later load made good; and whether another version of the model still serves.

## Means
Without a version that serves, every request to the model, and to each ensemble that calls it, is refused at once, and
no counter shows it: Triton counts only what it accepts. With an older version, users still get that one: the deployment
did not happen.

## Rules out
- A model that was unloaded as asked: its reason says `unloaded`.
- A version that is still loading.
- An ensemble whose member is missing: the member is named instead.

## Do
1. Read the reason (`curl -X POST HOST:8000/v2/repository/index`), and the server's log around it: a missing file, a
   wrong shape or type, memory, a wrong backend.
2. Put the version before it back (`version_policy`), or repair and load it again
   (`curl -X POST HOST:8000/v2/repository/models/NAME/load`).
3. Let the pipeline that deploys wait for READY, and fail when it does not come.

## Sources
Triton, "Model Repository Extension" (index states and reasons); core, `model_lifecycle.cc`: a failing reload leaves
the old version READY, and the error only in the answer and the log.
"""

from __future__ import annotations

from diagnostics.checks.check import Case, Check, Expected, Fires, Layer, Quiet, Severity, Suggestion
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.availability import FAILED_VERSIONS, MODEL_WANTED, OF_A_MEMBER, READY_VERSIONS
from diagnostics.signals.reading import Missing
from diagnostics.signals.subject import Scope, Subject
from diagnostics.units import Unit
from diagnostics.window.lifecycle import Happened

FAILED = Limit(value=1, unit=Unit.COUNT, because="a load either succeeds or fails")
# Reasons are texts of backends, some with a whole traceback.
SHOWN_REASON = 160
CHECK = Check(layer=Layer.SERVING, scope=Scope.LISTED, limits={"failed_versions": FAILED})


def diagnose(see: Ledger, on: Subject) -> Fires | Quiet:
    """Decide for one model of the repository."""
    if see.evidence.read(FAILED_VERSIONS, on).missing is Missing.NOT_EXPORTED:
        raise Undecided(FAILED_VERSIONS.name, Missing.NOT_EXPORTED)
    if not see.at_least(FAILED_VERSIONS, on, FAILED):
        return Quiet(because="no load of it failed")
    reason = _reason(see, on)
    if any(mark in reason for mark in OF_A_MEMBER):
        return Quiet(because="a member of the ensemble is what is missing")
    serves = see.need(READY_VERSIONS, on) > 0
    wanted = see.need(MODEL_WANTED, on) > 0
    because = f": {reason}" if reason else ""
    return Fires(
        summary=f"{on.model} could not be loaded, {_outcome(serves, wanted)}{because}",
        failed_share=0.0 if serves or not wanted else 1.0,
        severity=Severity.CRITICAL if wanted and not serves else Severity.WARNING,
        suggestion=Suggestion(
            text=f"repair {on.model} as the reason says and load it again, or put the version before it back; let "
            "deployments wait for READY"
        ),
    )


def _outcome(serves: bool, wanted: bool) -> str:
    if serves:
        return "and an older version goes on serving"
    return "and every request to it is refused" if wanted else "and nobody has asked for it yet"


def _reason(see: Ledger, on: Subject) -> str:
    reasons = [
        change.reason
        for change in see.evidence.changes(on.server)
        if change.model == on.model and change.kind is Happened.LOAD_FAILED and change.reason
    ]
    return " ".join(reasons[-1].split())[:SHOWN_REASON] if reasons else ""


_DOWN = {FAILED_VERSIONS: 1, READY_VERSIONS: 0, MODEL_WANTED: 1}
CASES = (
    Case(title="fires when no version serves", expect=Expected.FIRES, readings=_DOWN),
    Case(
        title="fires when a new version failed and an older one serves",
        expect=Expected.FIRES,
        readings={**_DOWN, READY_VERSIONS: 1},
    ),
    Case(title="is quiet when every load succeeded", expect=Expected.QUIET, readings={**_DOWN, FAILED_VERSIONS: 0}),
    Case(title="is unknown without the index", expect=Expected.UNKNOWN, readings={READY_VERSIONS: 0}),
)
