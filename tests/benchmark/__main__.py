"""`python -m tests.benchmark record|score`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from diagnostics.demo.environment import ensure_environment
from tests.benchmark.draws import draw, draw_gpu
from tests.benchmark.kinds import Drawn as OfAKind
from tests.benchmark.kinds import drawn_all
from tests.benchmark.kinds.record import gather
from tests.benchmark.kinds.record import record as record_kind
from tests.benchmark.record import record
from tests.benchmark.score import score


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record", help="draw incidents and record them from a real Triton")
    recording.add_argument("--count", type=int, default=24)
    recording.add_argument("--seed", type=int, default=1, help="the first of COUNT consecutive seeds")
    recording.add_argument("--kind", action="append", default=[], help="only seeds that draw such a kind; repeatable")
    recording.add_argument("--kinds", action="store_true", help="incidents of kinds, COUNT of them from number SEED on")
    recording.add_argument("--quick", action="store_true", help="with --kinds: one of each kind, short, to try them")
    recording.add_argument("--jobs", type=int, default=1, help="servers at once; each wants two cores of its own")
    recording.add_argument("--out", type=Path, required=True)
    one = verbs.add_parser("record-one")
    one.add_argument("--seed", type=int, required=True)
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--kinds", action="store_true")
    one.add_argument("--quick", action="store_true")
    for verb in (recording, one):
        verb.add_argument("--gpu", action="store_true", help="incidents of a GPU; needs one, and torch")
    scoring = verbs.add_parser("score", help="diagnose recorded incidents and compare with their labels")
    scoring.add_argument("folder", type=Path)
    scoring.add_argument("--by-kind", action="store_true", help="a line for each kind besides")
    scoring.add_argument("--every", action="store_true", help="a line for each incident, not only the wrong ones")
    arguments = parser.parse_args()
    if arguments.verb == "record":
        return _record_kinds(arguments) if arguments.kinds else _record(arguments)
    if arguments.verb == "record-one":
        if arguments.kinds:
            return _record_one_of_a_kind(arguments.seed, arguments.out, quick=arguments.quick)
        return _record_one(arguments.seed, arguments.out, gpu=arguments.gpu)
    return score(arguments.folder, every=arguments.every, by_kind=arguments.by_kind)


def _record(arguments: argparse.Namespace) -> int:
    arguments.out.mkdir(parents=True, exist_ok=True)
    ensure_environment()
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    one_of = draw_gpu if arguments.gpu else draw
    wanted = [seed for seed in seeds if not arguments.kind or one_of(seed).kind in arguments.kind]

    def one(seed: int) -> int:
        command = [sys.executable, "-m", "tests.benchmark", "record-one", "--seed", str(seed), "--out"]
        command += [str(arguments.out), *(["--gpu"] if arguments.gpu else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"{_name(seed, arguments.gpu)}: {done.stdout.strip() or done.stderr.strip()[-300:]}", flush=True)
        return done.returncode

    with ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        failed = sum(1 for code in pool.map(one, wanted) if code)
    labels = {
        path.name.removesuffix(".label.json"): json.loads(path.read_text("utf-8"))
        for path in sorted(arguments.out.glob("*.label.json"))
    }
    (arguments.out / "labels.json").write_text(json.dumps(labels, indent=1, sort_keys=True) + "\n", "utf-8")
    return 1 if failed else 0


def _record_one(seed: int, folder: Path, *, gpu: bool) -> int:
    name = _name(seed, gpu)
    label = record(draw_gpu(seed) if gpu else draw(seed), name, folder, ensure_environment())
    (folder / f"{name}.label.json").write_text(json.dumps(label), "utf-8")
    print(json.dumps(label))
    return 0


def _record_kinds(arguments: argparse.Namespace) -> int:
    """Record incidents of kinds, longest first, each by a process of its own."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    ensure_environment()
    wanted = [one for one in drawn_all() if arguments.seed <= one.number < arguments.seed + arguments.count]
    if arguments.quick:
        wanted = list({one.kind: one for one in wanted}.values())
    wanted = [one for one in wanted if not arguments.kind or one.kind in arguments.kind]

    def record_one(one: OfAKind) -> int:
        command = [sys.executable, "-m", "tests.benchmark", "record-one", "--kinds", "--seed", str(one.number)]
        command += ["--out", str(arguments.out), *(["--quick"] if arguments.quick else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        what = "recorded" if done.returncode == 0 else done.stderr.strip()[-300:]
        print(f"{one.name} {one.kind}: {what}", flush=True)
        return done.returncode

    wanted.sort(key=lambda one: -one.incident.seconds * (1 + len(one.incident.repairs or ())))
    with ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        failed = max(pool.map(record_one, wanted), default=0)
    gather(arguments.out)
    return failed


def _record_one_of_a_kind(number: int, folder: Path, *, quick: bool) -> int:
    one = next(one for one in drawn_all() if one.number == number)
    incident = replace(one.incident, seconds=15.0, repairs=None, sight="full") if quick else one.incident
    result = record_kind(incident, one.name, folder, ensure_environment(), one.seed)
    recorded = {**result, "kind": one.kind, "held_out": one.held_out}
    (folder / f"{one.name}.recorded.json").write_text(json.dumps(recorded), "utf-8")
    print(json.dumps(recorded))
    return 0


def _name(seed: int, gpu: bool) -> str:
    return f"drawn-{'gpu-' if gpu else ''}{seed:04}"


if __name__ == "__main__":
    sys.exit(main())
