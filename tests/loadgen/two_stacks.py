"""Measure the two stacks of docs/ anew: `python -m tests.loadgen.two_stacks`, about five minutes of a quiet machine.

One is the reference deployment with its fault `single-instance`; the other is the same with three instances of the
safety model and an embedder that waits for batches. Writes fixtures/bench/two-stacks.json.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from diagnostics.demo.environment import find_environment
from diagnostics.demo.faults import load_fault, materialise
from diagnostics.demo.server import Ports, TritonLauncher
from tests.soak.running import DIAG

KEPT = Path(__file__).parents[2] / "fixtures/bench/two-stacks.json"
PORTS = (18700, 18710)
LOAD = ("--concurrency", "1,4,8,16", "--max-tokens", "20", "--duration", "8s", "--slo", "latency < 300ms")
CHANGED = {
    "safety": ("count: 1", "count: 3"),
    "embedder": ("max_queue_delay_microseconds: 1000", "max_queue_delay_microseconds: 60000"),
}


def main() -> None:
    environment = find_environment()
    if environment is None:
        sys.exit("no environment of a Triton on this machine: `make triton` makes one")
    latency, throughput = (Ports(http=port, grpc=port + 1, metrics=port + 2) for port in PORTS)
    with (
        TemporaryDirectory() as folder,
        TritonLauncher(environment, load_fault("single-instance"), ports=latency),
        TritonLauncher(environment, for_throughput(Path(folder)), ports=throughput),
        KEPT.open("w") as kept,
    ):
        targets = [f"localhost:{port}" for port in PORTS]
        return subprocess.run(
            [*DIAG, "bench", *targets, *LOAD, "--output", "json"], stdout=kept, check=False
        ).returncode


def for_throughput(folder: Path) -> Path:
    """Write the second stack's repository below the folder, and return where it is."""
    repository = materialise(load_fault("single-instance"), folder / "repository")
    for model, (old, new) in CHANGED.items():
        config = repository / model / "config.pbtxt"
        text = config.read_text()
        if old not in text:
            raise ValueError(f"{config} has no `{old}` to change")
        config.write_text(text.replace(old, new))
    return repository


if __name__ == "__main__":
    main()
