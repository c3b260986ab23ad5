"""`python -m tests.benchmark.engine --out FOLDER`: records the incidents on the cards of this machine."""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from diagnostics.demo.environment import ensure_environment
from tests.benchmark.engine import DrawnFault, drawn_all, is_calm, label_of
from tests.benchmark.engine.record import Observed, observe
from tests.benchmark.engine.world import Incident

# Seconds that a run takes besides its load: the server's start and end.
_AROUND = 13.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark.engine", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--cards", type=int, default=1, help="how many cards there are; each is read of one server at a time"
    )
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin nothing that lasts longer than that")
    parser.add_argument("--skip", action="append", default=[], help="kind/seed that is there; repeatable")
    parser.add_argument("--one", help="record this kind/seed in this process, on the first card of --cards")
    parser.add_argument("--card", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    every = {f"{one.kind}/{one.seed}": one for one in drawn_all()}
    if arguments.one:
        _record(every[arguments.one], arguments.out, arguments.card)
        return 0
    # While a server that was read of ends, the next one starts.
    workers = 2 * arguments.cards
    begun, left = time.monotonic(), queue.SimpleQueue[str]()
    for key in every:
        if key not in arguments.skip:
            left.put(key)

    def work(number: int) -> None:
        card, cores = number % arguments.cards, sorted(os.sched_getaffinity(0))
        mine = cores[number * len(cores) // workers : (number + 1) * len(cores) // workers]
        while (key := _next(left)) is not None:
            fault = every[key].fault
            runs = [fault.incident, *(change.incident for change in fault.changes)]
            needed = 2 * sum(run.seconds + _AROUND for run in runs)  # of two servers, one waits for its turn
            if time.monotonic() - begun + needed > arguments.seconds:
                continue  # another may be shorter
            command = ["taskset", "-c", ",".join(map(str, mine)), sys.executable, "-m", "tests.benchmark.engine"]
            command += ["--one", key, "--card", str(card), "--out", str(arguments.out)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            state = done.stderr.strip()[-300:] if done.returncode else "recorded"
            print(f"{time.monotonic() - begun:.0f} s {key}: {state}", flush=True)

    threads = [threading.Thread(target=work, args=[number]) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


def _next(left: queue.SimpleQueue[str]) -> str | None:
    try:
        return left.get_nowait()
    except queue.Empty:
        return None


def _record(one: DrawnFault, folder: Path, card: int) -> None:
    environment = ensure_environment()
    seen: dict[str, object] = {}

    def run(what: str, name: str, incident: Incident) -> Observed:
        observed = observe(incident, folder / f"{name}.tar.xz", environment, card, one.seed + 1)
        seen[what] = {**observed.summary(incident), "felt_ms": round(observed.felt(incident), 1)}
        points = [
            [round(s.t - observed.clients[0][0].t, 2), s.model, round(s.ms, 1), round(first, 1), s.code]
            for s, first in observed.clients
        ]
        (folder / f"{name}.points.json").write_text(
            json.dumps({"kind": one.kind, "what": what, "incident": asdict(incident), "requests": points}), "utf-8"
        )
        print(what, seen[what], flush=True)
        return observed

    before = run("fault" if one.fault.changes else "healthy", one.names[0], one.fault.incident)
    tried: dict[str, float] = {}
    for number, change in enumerate(one.fault.changes):
        name = one.names[1] if number == 0 else f"{one.names[0]}-{number}"
        tried[change.what] = run(change.what, name, change.incident).felt(change.incident)
    labels = {one.names[0]: {**label_of(one.fault, before.felt(one.fault.incident), tried), "kind": one.kind}}
    twin = seen.get(one.fault.changes[0].what) if one.fault.changes else None
    if isinstance(twin, dict) and twin["p50_ms"] and is_calm(twin["p50_ms"], twin["p95_ms"], twin["errors"]):
        labels[one.names[1]] = {"cause": "healthy", "kind": f"{one.kind}_mended"}
    recorded = {"labels": labels, "seen": seen, "key": f"{one.kind}/{one.seed}"}
    (folder / f"{one.names[0]}.recorded.json").write_text(json.dumps(recorded), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
