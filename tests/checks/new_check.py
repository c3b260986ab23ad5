"""Writes a new check: its file with all that a check owes, and its id among those that are fixed by design.

    python -m tests.checks.new_check my-check [--layer gpu]

What is left to write carries a mark, and a test names each line with one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from diagnostics.checks.check import Layer

ROOT = Path(__file__).parents[2]
TEMPLATE_MARK = "FILL IN"
# It fires on a long queue, so that it runs from the first minute on; signal, limit and claim are to change.
_TEMPLATE = '''"""FILL IN: the cause in one sentence, as an operator would say it.

## Looks for
FILL IN: the readings that show it.

## Means
FILL IN: what happens in the server, and why that makes requests slow.

## Rules out
- FILL IN: what looks alike, and the check that names it instead.

## Do
1. FILL IN: the command or setting that mends it.

## Sources
FILL IN: the page, paper or source code that the above rests on.
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.entries import enough_requests
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

LONG = Limit(
    value=0.5,
    unit=Unit.SECONDS,
    because="FILL IN: why the answer differs on either side of this value, with the source",
)
CHECK = Check(
    layer=Layer.LAYER,
    scope=Scope.MODEL,
    limits={"queue": LONG},
    reach=frozenset({Phase.QUEUE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if not enough_requests(ledger, subject):
        return Quiet(because="hardly any request reaches it")
    if not ledger.at_least(QUEUE_SECONDS, subject, LONG):
        return Quiet(because="requests hardly wait")
    waited = ledger.need(QUEUE_SECONDS, subject)
    return Fires(
        summary=f"FILL IN: {subject.model} waits {Unit.SECONDS.show(waited)}",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=waited),),
        saved_seconds=waited,
        suggestion=Suggestion(text="FILL IN: what to change"),
    )


# One case on either side of each limit, 7 % away: a limit that moves by a fifth has to fail one of them.
_WAITS = {REQUESTS: 1000, QUEUE_SECONDS: 0.535, REQUEST_SECONDS: 2.0}
CASES = (
    CheckCase.fires("when requests wait", _WAITS),
    CheckCase.quiet("when they hardly wait", {**_WAITS, QUEUE_SECONDS: 0.465}),
    CheckCase.quiet("when idle", {REQUESTS: 0}),
    CheckCase.unknown("when queues are not exported", {REQUESTS: 1000}),
)
'''


def left_to_write(path: Path) -> list[str]:
    """Return the lines of a check that still carry the mark, with their numbers."""
    lines = enumerate(path.read_text("utf-8").splitlines(), 1)
    return [f"{path.name}:{number}: {line.strip()}" for number, line in lines if TEMPLATE_MARK in line]


def drafts(identifier: str, layer: Layer) -> dict[Path, str]:
    """Return the text of each file that a new check touches.

    Raises:
        ValueError: the id is malformed, or there is such a file.

    """
    if not re.fullmatch(r"[a-z]+(?:-[a-z]+)+", identifier):
        raise ValueError(f"{identifier!r}: an id is two or more words in lower case with dashes, as queue-rejections")
    check = ROOT / "diagnostics/checks" / f"{identifier.replace('-', '_')}.py"
    if check.exists():
        raise ValueError(f"{check.relative_to(ROOT)} exists")
    designed = ROOT / "tests/checks/designed.py"
    # On a line of its own where the layer's ids fill several lines: they may be full.
    opening = re.compile(rf'(Layer\.{layer.name}: (?:"""(\n {{8}})|"))')
    text, found = opening.subn(
        lambda match: f"{match[0]}{identifier}{match[2] or ' '}", designed.read_text("utf-8"), count=1
    )
    if not found:
        raise ValueError(f"{designed.relative_to(ROOT)} has no line of Layer.{layer.name}")
    return {check: _TEMPLATE.replace("Layer.LAYER", f"Layer.{layer.name}"), designed: text}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.checks.new_check")
    parser.add_argument("id", help="as queue-rejections")
    parser.add_argument("--layer", type=Layer, choices=list(Layer), default=Layer.SERVING)
    given = parser.parse_args(arguments)
    try:
        written = drafts(given.id, given.layer)
    except ValueError as error:
        print(f"new-check: {error}", file=sys.stderr)
        return 2
    for path, text in written.items():
        path.write_text(text, "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    print(f"next: write each line with {TEMPLATE_MARK!r}; then make generate, make quick")
    print("what a check can read: .venv/bin/python -m tests.signals.named WORD")
    return 0


if __name__ == "__main__":
    sys.exit(main())
