"""Kills a running `diag serve` again and again, at random moments, and looks at what is left.

    python -m tests.soak.killing [--times 100]

After each kill: of what was read of the server at most one round is not on disk, the database opens, the incident is
the same. At the end: what Alertmanager and a webhook were told over all the runs is one incident, neither lapsed nor
doubled nor ended; repetitions have the same labels and beginning, or the same id. A tenth as often it is killed at the
moment at which it first tells of an incident.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sqlite3
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from diagnostics.store import raw
from diagnostics.wire.records import BodyKind
from tests.collect.fake_triton import free_ports
from tests.service.notifications.hook import Hook, listening
from tests.soak.forking import Forks, forks
from tests.soak.moving import MovingTriton
from tests.soak.running import Serving, until

INTERVAL, RESEND = 1.0, 2.0
LONGEST_LIFE = 2.5
NAME = "killed"


def killed_again_and_again(folder: Path, times: int, program: Forks, triton: MovingTriton, seed: int = 1) -> list[int]:
    """Start and kill a service so many times; return how many rounds each kill lost."""
    draw, lost = random.Random(seed), list[int]()
    with listening() as hook:
        settings = written(folder, free_ports(1), triton.url, hook.url)
        with program.serving(settings) as service:
            until(lambda: incidents(service) and len(reported(hook)) == 2, 30, "an incident that both receivers know")
            first = incidents(service)
            service.kill()
        for _ in range(times):
            with program.serving(settings) as service:
                one_life(service, draw.uniform(0.0, LONGEST_LIFE), first)
            check_database(folder / "data" / "history.db")
            lost.append(lost_rounds(folder / "data", triton))
        with program.serving(settings) as service:
            until(lambda: first == incidents(service), 10, "the same incident")
            seen = hook.seen
            until(lambda: hook.seen > seen, 2 * RESEND, "a repetition")
            assert service.end() == 0
        check_alerts(hook, first)
        check_messages(hook, first)
    return lost


def killed_at_the_first_word(folder: Path, program: Forks, triton: MovingTriton) -> None:
    """Kill a service at the moment at which it tells of an incident: the next run goes on with the same one."""
    with listening() as hook:
        settings = written(folder, free_ports(1), triton.url, hook.url)
        with program.serving(settings) as service:
            until(lambda: hook.taken, 30, "the first word")
            service.kill()
        with program.serving(settings) as service:
            until(lambda: len(reported(hook)) == 2, 10, "word to both receivers")
            first = incidents(service)
            seen = hook.seen
            until(lambda: hook.seen > seen, 2 * RESEND, "a repetition")
            assert service.end() == 0
        check_alerts(hook, first)
        check_messages(hook, first)


def one_life(service: Serving, seconds: float, first: set[str]) -> None:
    begun = time.monotonic()
    until(lambda: first == incidents(service), 5, "the same incident")
    time.sleep(max(0.0, begun + seconds - time.monotonic()))
    service.kill()


def written(folder: Path, port: int, server: str, receiver: str) -> Path:
    settings = folder / "diag.toml"
    settings.write_text(
        f'[web]\nlisten_address = "127.0.0.1:{port}"\n[collect]\ninterval = "{INTERVAL}s"\nwindow = "30s"\n'
        f'[incidents]\nopen_after = 1\n[history]\ndirectory = "{folder}/data"\n[[server]]\nurl = "{server}"\n'
        f'[[deployment]]\nname = "{NAME}"\nservers = ["{server}"]\n'
        f'[alertmanager]\nurls = ["{receiver}"]\nresend = "{RESEND}s"\n[[webhook]]\nurl = "{receiver}/hook"\n'
    )
    return settings


def incidents(service: Serving) -> set[str]:
    return {one["id"] for one in service.json("/api/v1/incidents?state=open")}


def check_database(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        twice = "select fingerprint, count(*) from incidents where closed is null group by 1 having count(*) > 1"
        assert database.execute(twice).fetchall() == [], "an incident lasts twice"


def lost_rounds(directory: Path, triton: MovingTriton) -> int:
    """Return how many rounds were read of the server after the last one that is on disk: one at most."""
    now = time.time()
    kept = [one.at for one in raw.scrapes(directory, NAME, now - 120.0, now) if one.kind is BodyKind.STATISTICS]
    lost = sum(at > max(kept) + INTERVAL / 2 for at in triton.rounds)
    assert lost <= 1, f"{lost} rounds were lost"
    return lost


def reported(hook: Hook) -> dict[str, list[tuple[float, Any]]]:
    """Return what each kind of receiver took and when, by `alerts` and `messages`."""
    found: dict[str, list[tuple[float, Any]]] = {}
    for at, (headers, body) in list(zip(hook.times, hook.taken, strict=False)):
        stated = json.loads(body)
        if isinstance(stated, list):
            found.setdefault("alerts", []).append((at, stated))
        else:
            found.setdefault("messages", []).append((at, (headers["webhook-id"], stated)))
    return found


def check_alerts(hook: Hook, incidents: set[str]) -> None:
    """Each incident is one alert, with one beginning, that never ends and never lapses between repetitions."""
    beginnings: dict[str, set[tuple[str, str]]] = {}
    until_when: dict[str, float] = {}
    for at, alerts in reported(hook)["alerts"]:
        for alert in alerts:
            identity, ends = alert["generatorURL"].rpartition("/")[2], moment(alert["endsAt"])
            beginnings.setdefault(identity, set()).add((json.dumps(alert["labels"], sort_keys=True), alert["startsAt"]))
            assert ends > at, f"{identity} was told to have ended"
            assert at <= until_when.get(identity, at), f"{identity} lapsed"
            until_when[identity] = ends
    assert set(beginnings) == incidents
    assert all(len(ways) == 1 for ways in beginnings.values()), beginnings


def check_messages(hook: Hook, incidents: set[str]) -> None:
    """The webhook was told once of each incident: what comes again has the same id."""
    assert {identity for _, (identity, _) in reported(hook)["messages"]} == {f"{one}.opened" for one in incidents}


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    requested = options.parse_args()
    begun, longest = time.monotonic(), 200.0 + requested.times * (LONGEST_LIFE + 5.0)
    with tempfile.TemporaryDirectory() as folder, MovingTriton(longest).running() as triton, forks() as program:
        lost = killed_again_and_again(Path(folder), requested.times, program, triton, requested.seed)
        for _ in range(requested.times // 10):
            killed_at_the_first_word(Path(tempfile.mkdtemp(dir=folder)), program, triton)
    took = time.monotonic() - begun
    print(f"killed {requested.times} times in {took:.0f} s; {sum(lost)} rounds lost, at most {max(lost)} a time")
    print("the database opened, incidents kept their identity, alerts neither lapsed nor came twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
