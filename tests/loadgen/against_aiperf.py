"""Hold `diag bench` against NVIDIA's aiperf: `python -m tests.loadgen.against_aiperf URL --aiperf PROGRAM`.

URL is the HTTP endpoint of the reference deployment. Both send the same prompts to its generate endpoint from as many
clients, in turn, and what each measured is printed with the difference. aiperf is not a dependency: install it apart.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

MAX_TOKENS, WORDS, PROMPTS, SECONDS = 20, 32, 64, 10
DIAG = (sys.executable, "-c", "import sys; from diagnostics.cli.main import main; sys.exit(main())")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--aiperf", default="aiperf")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        prepare(Path(folder))
        for clients in asked.concurrency:
            for _ in range(asked.rounds):
                theirs = by_aiperf(Path(folder), asked.aiperf, asked.url, clients)
                ours = by_diag(Path(folder), asked.url, clients)
                print(f"{clients} clients  " + "  ".join(told(name, ours[name], theirs[name]) for name in ours))


def told(name: str, ours: float, theirs: float) -> str:
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


def by_aiperf(folder: Path, program: str, url: str, clients: int) -> dict[str, float]:
    options = {
        "-m": "ensemble",
        "-u": url,
        "--endpoint": "/v2/models/ensemble/generate",
        "--endpoint-type": "template",
        "--extra-inputs": f"payload_template:{folder / 'body.j2'}",
        "--concurrency": clients,
        "--benchmark-duration": SECONDS,
        "--warmup-request-count": 4 * clients,
        "--input-file": folder / "theirs.jsonl",
        "--custom-dataset-type": "single_turn",
        "--tokenizer": "bytes/bytes",
        "--output-artifact-dir": folder / "artifacts",
        "--ui-type": "none",
    }
    command = [program, "profile", *(str(part) for pair in options.items() for part in pair)]
    command += ["--extra-inputs", "response_field:text_output"]
    offline = {"HF_HOME": str(folder), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **offline})
    found = json.loads((folder / "artifacts" / "profile_export_aiperf.json").read_text())
    latency = {name: found["request_latency"][key] / 1e3 for name, key in (("mean", "avg"), ("p50", "p50"))}
    return {"throughput": found["request_throughput"]["avg"], **latency}


def by_diag(folder: Path, url: str, clients: int) -> dict[str, float]:
    options = ["--protocol", "generate", "--input", str(folder / "ours.jsonl"), "--concurrency", str(clients)]
    run = [*DIAG, "bench", url, *options, "--duration", f"{SECONDS}s", "--blocks", "1", "--output", "json"]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    block = json.loads(done.stdout)["targets"][0]["points"][0]["blocks"][0]
    return {name: block[name] for name in ("throughput", "mean", "p50")}


if __name__ == "__main__":
    main()
