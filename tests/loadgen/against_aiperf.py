"""Hold `diag bench` against NVIDIA's aiperf: `python -m tests.loadgen.against_aiperf --aiperf PROGRAM`.

Both send the same prompts to the generate endpoint of the reference deployment, on a real Triton that is started for
it, from as many clients or at the same rate, in turn and in changing order. What each measured is printed with the
differences; the middle one of the rounds' differences must lie within the tolerance, or the exit code is 1. aiperf is
not a dependency: install it apart. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from diagnostics.demo.environment import find_environment
from diagnostics.demo.faults import load_fault
from diagnostics.demo.server import TritonLauncher
from tests.soak.running import DIAG

MAX_TOKENS, WORDS, PROMPTS = 20, 32, 64
# Two runs of one program, 20 s each, differ by up to 4 % on two cores, whoever measures: twice that.
TOLERANCE = 0.08
# Throughput is latency's mirror in a closed loop and the asked rate in an open one; it is printed, not judged.
COMPARED = ("mean", "p50")
Measured = dict[str, float]
Load = tuple[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aiperf", default="aiperf")
    parser.add_argument("--concurrency", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--rate", type=float, nargs="*", default=[10.0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=20, help="of one run")
    asked = parser.parse_args()
    environment = find_environment()
    if environment is None:
        parser.error("no environment of a Triton on this machine: `make triton` makes one")
    loads = [*(("concurrency", each) for each in asked.concurrency), *(("rate", each) for each in asked.rate)]
    with TemporaryDirectory() as folder, TritonLauncher(environment, load_fault("healthy")) as triton:
        prepare(Path(folder))
        run = Run(folder=Path(folder), url=triton.http_url, seconds=asked.seconds, aiperf=asked.aiperf)
        return int(sum(not run.agrees(load, asked.rounds) for load in loads) > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What every run has in common: the folder of prompts, the server, its seconds and the other program."""

    folder: Path
    url: str
    seconds: int
    aiperf: str

    def agrees(self, load: Load, rounds: int) -> bool:
        """Print what both measured at one load, and return whether its latencies are within the tolerance."""
        pairs = [self.pair(load, ours_first=number % 2 == 0) for number in range(rounds)]
        for ours, theirs in pairs:
            print(f"{load[0]} {load[1]:g}  " + "  ".join(reported(name, ours[name], theirs[name]) for name in ours))
        apart = {name: statistics.median(ours[name] / theirs[name] - 1 for ours, theirs in pairs) for name in COMPARED}
        within = all(abs(each) <= TOLERANCE for each in apart.values())
        print("  middle: " + ", ".join(f"{name} {each:+.1%}" for name, each in apart.items()), end="")
        print(f" ({'within' if within else 'OUTSIDE'} {TOLERANCE:.0%})", flush=True)
        return within

    def pair(self, load: Load, *, ours_first: bool) -> tuple[Measured, Measured]:
        """Return what `diag bench` and aiperf measured, one right after the other."""
        ours = self.by_diag(load) if ours_first else {}
        theirs = self.by_aiperf(load)
        return ours or self.by_diag(load), theirs

    def by_aiperf(self, load: Load) -> Measured:
        kind, value = load
        options = {
            "-m": "ensemble",
            "-u": self.url,
            "--endpoint": "/v2/models/ensemble/generate",
            "--endpoint-type": "template",
            "--extra-inputs": f"payload_template:{self.folder / 'body.j2'}",
            "--request-rate" if kind == "rate" else "--concurrency": value,
            "--benchmark-duration": self.seconds,
            "--warmup-request-count": 32,
            "--input-file": self.folder / "theirs.jsonl",
            "--custom-dataset-type": "single_turn",
            "--tokenizer": "bytes/bytes",
            "--output-artifact-dir": self.folder / "artifacts",
            "--ui-type": "none",
        }
        command = [self.aiperf, "profile", *(str(part) for pair in options.items() for part in pair)]
        command += ["--extra-inputs", "response_field:text_output"]
        offline = {"HF_HOME": str(self.folder), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **offline})
        found = json.loads((self.folder / "artifacts" / "profile_export_aiperf.json").read_text())
        latency = {name: found["request_latency"][key] / 1e3 for name, key in (("mean", "avg"), ("p50", "p50"))}
        return at_once({"throughput": found["request_throughput"]["avg"], **latency})

    def by_diag(self, load: Load) -> Measured:
        options = ["--protocol", "generate", "--input", str(self.folder / "ours.jsonl"), f"--{load[0]}", f"{load[1]:g}"]
        options += ["--duration", f"{self.seconds}s", "--blocks", "1", "--output", "json"]
        done = subprocess.run([*DIAG, "bench", self.url, *options], check=True, capture_output=True, text=True)
        block = json.loads(done.stdout)["targets"][0]["points"][0]["blocks"][0]
        return at_once({name: block[name] for name in ("mean", "p50", "throughput")})


def at_once(measured: Measured) -> Measured:
    """Add how many requests were out at once, by Little's law: a client that pauses between requests has less out."""
    return {**measured, "out": measured["throughput"] * measured["mean"]}


def reported(name: str, ours: float, theirs: float) -> str:
    return f"{name} {ours:.4g} against {theirs:.4g} ({ours / theirs - 1:+.1%})"


def prepare(folder: Path) -> None:
    """Write the prompts in both programs' words, and a tokenizer where aiperf looks for downloaded ones."""
    chance = random.Random(7)
    prompts = [" ".join(f"word{chance.randrange(10_000)}" for _ in range(WORDS)) for _ in range(PROMPTS)]
    lines = {"theirs": [{"text": one} for one in prompts]}
    lines["ours"] = [{"text_input": one, "max_tokens": MAX_TOKENS} for one in prompts]
    for name, each in lines.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in each))
    (folder / "body.j2").write_text(f'{{"text_input": {{{{ text|tojson }}}}, "max_tokens": {MAX_TOKENS}}}')
    model = folder / "hub" / "models--bytes--bytes"
    kept = model / "snapshots" / "1"
    kept.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("1")
    (kept / "config.json").write_text('{"model_type": "gpt2"}')
    (kept / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2TokenizerFast"}')
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: number for number, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(kept / "tokenizer.json"))


if __name__ == "__main__":
    sys.exit(main())
