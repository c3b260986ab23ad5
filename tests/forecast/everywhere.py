"""Asks of every recorded window what sensible and odd changes would do, and prints what no forecast may be.

Run as `python -m tests.forecast.everywhere --part 3/16`: every window gets that part of the cases, each in a process
whose time and memory are limited. `--only NAME` is of windows whose path holds it, `--case TEXT` of cases whose name
does, `--quick` takes few and short simulations. Exits with 1 where something was wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures"
# Seconds of processor time for a case, and bytes for a process: no command may want more of an operator's laptop.
CASE_SECONDS, PROCESS_BYTES = 60, 2**30


def windows() -> Sequence[Path]:
    """Return every recorded window of the repository, in a stable order."""
    return sorted(FIXTURES.glob("**/*.tar.xz"))


def requested(path: Path, other: Path, arguments: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Yield what became of each case of a window: the case, the fate, and what was said."""
    command = [sys.executable, "-m", "tests.forecast.asking", str(path), str(other), arguments.part, arguments.case]
    command += ["--quick"] if arguments.quick else []
    case = "start"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        for line in process.stdout:
            reported = json.loads(line)
            case = reported["case"]
            if "fate" in reported:
                yield case, reported["fate"], reported["stated"]
        stated = process.stderr.read().strip().splitlines()
    if process.returncode:
        yield case, "KILLED", f"{process.returncode}: {stated[-1] if stated else ''}"


def main() -> int:
    """Ask and print; return 1 where something was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", default="0/1", help="which part of the cases each window gets, as 3/16")
    parser.add_argument("--only", default="", help="windows whose path holds this")
    parser.add_argument("--case", default="", help="cases whose name holds this")
    parser.add_argument("--quick", action="store_true", help="few and short simulations")
    arguments = parser.parse_args()
    every, fates = windows(), Counter[str]()
    for at, path in enumerate(every):
        if arguments.only not in str(path):
            continue
        fixed = path.with_name(path.name.replace(".tar", "-fixed.tar"))
        other = fixed if fixed.exists() else every[(at + 7) % len(every)]
        for case, fate, stated in requested(path, other, arguments):
            fates[fate] += 1
            if fate.isupper():
                print(f"{fate} {path.relative_to(FIXTURES)} {case}: {stated}", flush=True)
    print(", ".join(f"{count} {fate}" for fate, count in sorted(fates.items())))
    return 1 if any(fate.isupper() for fate in fates) else 0


if __name__ == "__main__":
    sys.exit(main())
