"""A real NVIDIA Dynamo with the engine that its makers imitate, diagnosed while healthy, out of slots, out of KV cache.

    python -m tests.soak.engine .dynamo

The frontend, the router, the worker and their pages are Dynamo's own; `dynamo.mocker` schedules as vLLM does (slots, KV
blocks, chunked prefill, preemption) and waits where a GPU would compute. No GPU is needed, and all listen on loopback.
Ends with 0 if each state was named, in two minutes.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from diagnostics.errors import CollectError

MODEL = "tiny"
READ_SECONDS = 15
STARTS_WITHIN = 60.0
# A model of four hundred tokens: the frontend tokenizes for real, and the engine computes nothing.
_MODEL_FILES = """
import json, sys, pathlib
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
folder = pathlib.Path(sys.argv[1])
bpe = Tokenizer(models.BPE())
bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bpe.decoder = decoders.ByteLevel()
letters = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<s>", "</s>"], initial_alphabet=letters)
bpe.train_from_iterator(["the request waits in the queue and the engine answers with tokens"], trainer)
bpe.save(str(folder / "tokenizer.json"))
ends = {"bos_token_id": 0, "eos_token_id": 1}
size = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4}
size |= {"num_hidden_layers": 2, "max_position_embeddings": 4096, "vocab_size": bpe.get_vocab_size()}
kind = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float16"}
chat = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
tokens = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "chat_template": chat}
(folder / "config.json").write_text(json.dumps(kind | size | ends))
(folder / "tokenizer_config.json").write_text(json.dumps(tokens))
(folder / "generation_config.json").write_text(json.dumps(ends))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """One state of an engine, and what is to be said of it.

    Attributes:
        title: what it is.
        slots: most sequences at once.
        clients: that each wait for their answer before they ask again.
        words: of a prompt.
        tokens: of an answer.
        pause: mean seconds between a client's requests.
        named: what the first line has to say.

    """

    title: str
    slots: int
    clients: int
    words: int
    tokens: int
    pause: float
    named: str


STATES = (
    EngineState(title="free slots", slots=16, clients=4, words=20, tokens=10, pause=1.0, named="healthy"),
    EngineState(title="few slots", slots=4, clients=12, words=20, tokens=80, pause=0.0, named="engine-batch-limit"),
    EngineState(title="small cache", slots=16, clients=14, words=400, tokens=60, pause=0.0, named="kv-cache-exhausted"),
)


def _free_port() -> int:
    """Return a port that nobody listens on. Dynamo reads that of its system page as a signed number of 16 bits."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise CollectError("no port from 20000 to 32000 is free")


@contextmanager
def dynamo(environment: Path, folder: Path, slots: int) -> Iterator[tuple[str, str]]:
    """Run a frontend and a worker; yield their addresses. Their logs are in `folder`."""
    front, worker = _free_port(), _free_port()
    on_loopback = dict.fromkeys(("DYN_SYSTEM_HOST", "DYN_TCP_RPC_HOST", "DYN_HTTP_RPC_HOST"), "127.0.0.1")
    found = {"DYN_DISCOVERY_BACKEND": "file", "DYN_FILE_KV": str(folder / "discovery")}
    planes = {"DYN_REQUEST_PLANE": "tcp", "DYN_EVENT_PLANE": "zmq", "HF_HUB_OFFLINE": "1"}
    settings = os.environ | on_loopback | found | planes
    shown = settings | {"DYN_SYSTEM_PORT": str(worker)}
    limits = ["--max-num-seqs", str(slots), "--num-gpu-blocks-override", "64"]
    python = environment / "bin" / "python"
    commands = (
        ([python, "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(front)], settings),
        ([python, "-m", "dynamo.mocker", "--model-path", folder / "model", "--model-name", MODEL, *limits], shown),
    )
    running = [_started(command, variables, folder) for command, variables in commands]
    try:
        _await_model(front, running, folder)
        yield f"http://127.0.0.1:{front}", f"http://127.0.0.1:{worker}"
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
        for process in running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _started(command: Sequence[str | Path], variables: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, env=dict(variables), stdout=log, stderr=log, cwd=folder)


def _await_model(port: int, running: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    until = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < until and all(process.poll() is None for process in running):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as answer:
                if MODEL.encode() in answer.read():
                    return
        except OSError:
            pass
        time.sleep(0.5)
    last = (folder / "log").read_text("utf-8", "replace").splitlines() or ["nothing was logged"]
    raise CollectError(f"Dynamo did not serve a model within {STARTS_WITHIN:.0f} s: {last[-1][:300]}")


@contextmanager
def load(url: str, state: EngineState) -> Iterator[None]:
    """Ask for chat completions from several clients while the block runs."""
    ended = threading.Event()

    def client() -> None:
        dice = random.Random()
        while not ended.wait(dice.expovariate(1 / state.pause) if state.pause else 0.0):
            prompt = " ".join(dice.choice(("request", "queue", "engine", "token")) for _ in range(state.words))
            body = {"model": MODEL, "max_tokens": state.tokens, "messages": [{"role": "user", "content": prompt}]}
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                answer.read()

    threads = [threading.Thread(target=client, daemon=True) for _ in range(state.clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)


def diagnosed(addresses: Sequence[str]) -> str:
    """Return what `diag explain` prints of these addresses."""
    command = ["diag", "explain", *addresses, "--window", f"{READ_SECONDS}s"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return answer.stdout + answer.stderr


def main() -> int:
    """Run each state, and print what is said of it; return 1 if one was not named."""
    environment = Path(sys.argv[1]).resolve()
    missed = 0
    for state in STATES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for part in ("model", "discovery"):
                (folder / part).mkdir()
            made = [environment / "bin" / "python", "-c", _MODEL_FILES, folder / "model"]
            subprocess.run(made, check=True, capture_output=True)
            with dynamo(environment, folder, state.slots) as addresses, load(addresses[0], state):
                time.sleep(3)
                text = diagnosed(addresses)
        named = bool(re.search(rf"\b{state.named}\b", text.split("\n\n")[0]))
        missed += not named
        sys.stdout.write(f"--- {state.title}: {'named' if named else f'{state.named} was not named'}\n{text}\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
