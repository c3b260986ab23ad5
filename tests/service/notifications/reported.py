"""A notifier of its own, also as a process that can be killed: `python -m tests.service.notifications.reported …`.

It opens two incidents, one of which ends when a line arrives, and says when the end is on the disk.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from diagnostics.service.notifications.notifier import Notifier
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.settings.tree import Settings
from diagnostics.store.outbox import FileOutbox
from tests.service.parts import until
from tests.sinks.incidents import closed, incident, opened

# Long before any clock that runs these tests.
ONSET = 1_700_000_000.0
CAUSE = incident(onset=ONSET, seen=ONSET)
ENDING = incident("cold-start", onset=ONSET, seen=ONSET)


def reported_by(urls: Sequence[str], folder: Path, metrics: OwnMetrics | None = None) -> Notifier:
    settings = Settings.model_validate({"alertmanager": {"urls": urls, "resend": "1s"}})
    return Notifier(settings, metrics or OwnMetrics(), FileOutbox(folder), first_pause=0.1)


def onset_of(alert: dict[str, Any]) -> float:
    return datetime.fromisoformat(alert["startsAt"]).timestamp()


def main(folder: Path, urls: Sequence[str]) -> None:
    telling = reported_by(urls, folder)
    telling.start()
    telling.consume(opened(CAUSE, ENDING))
    sys.stdin.readline()
    telling.consume(closed(ENDING, at=time.time()))
    saved = folder / "outbox" / "alertmanager.json"
    until(lambda: saved.exists() and urls[0] in saved.read_text())
    print("saved", flush=True)
    time.sleep(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
