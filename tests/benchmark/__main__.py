"""`python -m tests.benchmark record|score`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from diagnostics.demo.environment import ensure_environment
from tests.benchmark.draws import draw, draw_gpu
from tests.benchmark.record import record
from tests.benchmark.score import score


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record", help="draw incidents and record them from a real Triton")
    recording.add_argument("--count", type=int, default=24)
    recording.add_argument("--seed", type=int, default=1, help="the first of COUNT consecutive seeds")
    recording.add_argument("--kind", action="append", default=[], help="only seeds that draw such a kind; repeatable")
    recording.add_argument("--jobs", type=int, default=1, help="servers at once; each wants two cores of its own")
    recording.add_argument("--out", type=Path, required=True)
    one = verbs.add_parser("record-one")
    one.add_argument("--seed", type=int, required=True)
    one.add_argument("--out", type=Path, required=True)
    for verb in (recording, one):
        verb.add_argument("--gpu", action="store_true", help="incidents of a GPU; needs one, and torch")
    scoring = verbs.add_parser("score", help="diagnose recorded incidents and compare with their labels")
    scoring.add_argument("folder", type=Path)
    scoring.add_argument("--every", action="store_true", help="a line for each incident, not only the wrong ones")
    arguments = parser.parse_args()
    if arguments.verb == "record":
        return _record(arguments)
    if arguments.verb == "record-one":
        return _record_one(arguments.seed, arguments.out, gpu=arguments.gpu)
    return score(arguments.folder, every=arguments.every)


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


def _name(seed: int, gpu: bool) -> str:
    return f"drawn-{'gpu-' if gpu else ''}{seed:04}"


if __name__ == "__main__":
    sys.exit(main())
