"""`python -m tests.benchmark.again --out FOLDER`: records each kind once and then once more, longest first."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from diagnostics.demo.environment import ensure_environment
from tests.benchmark.again import OddDrawn, drawn_all
from tests.benchmark.again.record import record


def main(module: str, every: Sequence[OddDrawn]) -> int:
    """Record what the command line names of the incidents of a set, each by a process of its own.

    Args:
        module: the package of the set, which `python -m` runs.
        every: its incidents.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1, help="servers at once; each wants a core or two of its own")
    parser.add_argument("--number", type=int, action="append", default=[], help="only these; repeatable")
    parser.add_argument("--kind", action="append", default=[], help="only these kinds; repeatable")
    parser.add_argument("--quick", action="store_true", help="one of each kind, short and without trials, to try them")
    parser.add_argument("--one", type=int, help="record this one in this process")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    environment = ensure_environment()
    if arguments.one:
        one = next(one for one in every if one.number == arguments.one)
        quick = replace(one.incident, seconds=16.0, changes=(), sight="full")
        result = record(quick if arguments.quick else one.incident, one.name, arguments.out, environment, one.seed)
        (arguments.out / f"{one.name}.recorded.json").write_text(json.dumps({**result, "kind": one.kind}), "utf-8")
        return 0
    wanted = [one for one in every if not arguments.number or one.number in arguments.number]
    wanted = [one for one in wanted if not arguments.kind or one.kind in arguments.kind]
    wanted = [one for one in wanted if not arguments.quick or one.seed == 0]
    wanted.sort(key=lambda one: (one.seed, -one.incident.seconds - one.incident.trial * len(one.incident.changes)))

    def record_one(number: int) -> int:
        command = [sys.executable, "-m", module, "--one", str(number), "--out", str(arguments.out)]
        command += ["--quick"] if arguments.quick else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"{number}: {done.stderr.strip()[-400:] or 'recorded'}", flush=True)
        return done.returncode

    with ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        failed = max(pool.map(record_one, [one.number for one in wanted]), default=0)
    gather(arguments.out)
    return failed


def gather(folder: Path) -> None:
    """Write `labels.json` of what was recorded, and `seen.json`, to check by hand that each fault showed."""
    recorded = {
        path.name.removesuffix(".recorded.json"): json.loads(path.read_text("utf-8"))
        for path in sorted(folder.glob("*.recorded.json"))
    }
    labels = {name: {**one["label"], "kind": one["kind"]} for name, one in recorded.items()}
    seen = {name: {"kind": one["kind"], **one["seen"]} for name, one in recorded.items()}
    (folder / "labels.json").write_text(json.dumps(labels, indent=1, sort_keys=True) + "\n", "utf-8")
    (folder / "seen.json").write_text(json.dumps(seen, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main("tests.benchmark.again", drawn_all()))
