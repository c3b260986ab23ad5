"""What an incident of the real engine is: the deployment, its clients, and what happens beside it on the card."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

_FIXTURES = Path(__file__).parents[3] / "fixtures"
_MODELS = _FIXTURES / "reference_engine/models"
_GAUGES = _FIXTURES / "reference/model_repository/tensorrt_llm/1/gauges.py"
ENSEMBLE, TOKENIZER, ENCODER, CLASSIFIER, ENGINE, DETOKENIZER = (
    *("chat", "tokenizer", "encoder", "classifier"),
    *("engine", "detokenizer"),
)
SECOND = "engine_beside"
VOCABULARY = 4096
_WORDS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine. `tokens` of KV cache in blocks of `block`; `budget` tokens an iteration; `kept` share left free.

    Attributes:
        graphs: iterations are CUDA graphs; `warm` ones are captured while the model loads.
        streams: a decoupled model, which sends the first token at once.
    """

    slots: int = 32
    tokens: int = 49152
    block: int = 32
    budget: int = 2048
    kept: float = 0.1
    scheduler: str = "fifo"
    graphs: bool = False
    warm: bool = False
    streams: bool = False
    layers: int = 8
    width: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage beside the engine. `delay_us` None means no dynamic batching; the values are its parameters."""

    instances: int = 1
    batch: int = 16
    delay_us: int | None = 0
    queue_limit: int = 0
    gpu: bool = True
    values: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The ensemble: tokenizer → encoder → classifier → engine → detokenizer; with `second`, another engine alone."""

    engine: Engine = field(default_factory=Engine)
    second: Engine | None = None
    tokenizer: Stage = field(default_factory=lambda: Stage(instances=2, batch=1, delay_us=None, gpu=False))
    encoder: Stage = field(default_factory=Stage)
    classifier: Stage = field(default_factory=Stage)
    kept_tokens: int = 16384
    head: int = 256
    passes: int = 1
    encoder_layers: int = 12
    encoder_width: int = 1024

    def changed(self, part: str, **values: object) -> Deployment:
        """Return the deployment with other settings of one part."""
        return replace(self, **{part: replace(getattr(self, part), **values)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One stream of clients, of texts of so many words, for so many tokens.

    Attributes:
        rate: requests a second of an open loop, Poisson; with `burst` above 1 that many at once.
        clients: above 0, a closed loop of so many, each of which thinks `think` seconds.
        start, end: seconds between which it lasts; an end of 0 is the recording's.
        later: the tokens that are wanted from the middle on; 0 for the same.
        model: the ensemble, an engine or the encoder, which take ids.
    """

    rate: float = 0.0
    clients: int = 0
    think: float = 0.0
    burst: int = 1
    words: int = 120
    wanted: int = 40
    later: int = 0
    start: float = 0.0
    end: float = 0.0
    model: str = ENSEMBLE
    rows: int = 1
    patience: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What else is on the machine.

    Attributes:
        turns: seconds that other processes, `tenants` of them, compute on the card, and seconds that they then rest.
        memory_left: above 0, another process leaves so many MiB of the card's memory.
        hogs: processes that take processors; `cores` that the server and they have; 0 for all.
        mps: whether processes share the card through NVIDIA's multi-process service.
        event: (second, what, model): `reload`, `unload` and `load`, `reload-http`.
    """

    turns: tuple[float, float] = (0.0, 0.0)
    tenants: int = 1
    memory_left: int = 0
    hogs: int = 0
    cores: int = 0
    mps: bool = False
    events: tuple[tuple[float, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One deployment under load. `felt_by` is the stream whose clients are compared; `early`: read from the start."""

    deployment: Deployment = field(default_factory=Deployment)
    loads: tuple[Load, ...] = (Load(rate=8.0),)
    beside: Beside = field(default_factory=Beside)
    felt_by: str = ENSEMBLE
    seconds: float = 17.0
    early: bool = False


@cache
def tokenizer_json() -> str:
    """Return a byte-level BPE tokenizer, trained on words that are drawn from a seed."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([text(random.Random(number), 60) for number in range(400)], trainer)
    return str(tokenizer.to_str())


@cache
def _words() -> tuple[str, ...]:
    chance = random.Random(7)
    parts = [a + b for a in "bcdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "ar", "en", "is", "on")]
    return tuple("".join(chance.choices(parts, k=chance.randint(1, 4))) for _ in range(_WORDS))


def text(chance: random.Random, words: int) -> str:
    """Return a text of so many words; a word is about one token."""
    return " ".join(chance.choices(_words(), k=words))


def write(deployment: Deployment, into: Path) -> Path:
    """Write the model repository of a deployment and return it."""
    head, kept = deployment.head, deployment.kept_tokens
    sizes = {"layers": deployment.encoder_layers, "width": deployment.encoder_width, "vocabulary": VOCABULARY}
    encoder = {**sizes, "passes": deployment.passes, **deployment.encoder.values}
    classifier = {"layers": 4, "width": deployment.encoder_width, **deployment.classifier.values}
    width = deployment.encoder_width
    _stage(into, TOKENIZER, deployment.tokenizer, {"kept_tokens": kept, "head_tokens": head})
    _stage(into, ENCODER, deployment.encoder, encoder)
    _stage(into, CLASSIFIER, deployment.classifier, classifier)
    _stage(into, DETOKENIZER, Stage(instances=2, batch=1, delay_us=None, gpu=False), {})
    _tensors(into, TOKENIZER, "TEXT:TYPE_STRING:1", f"INPUT_IDS:TYPE_INT32:-1 HEAD_IDS:TYPE_INT32:{head}")
    _tensors(into, ENCODER, f"HEAD_IDS:TYPE_INT32:{head}", f"VECTOR:TYPE_FP32:{width}")
    _tensors(into, CLASSIFIER, f"VECTOR:TYPE_FP32:{width}", "VERDICT:TYPE_FP32:1")
    _tensors(into, DETOKENIZER, "OUTPUT_IDS:TYPE_INT32:-1", "ANSWER:TYPE_STRING:1")
    for name in (TOKENIZER, DETOKENIZER):
        (into / name / "1/tokenizer.json").write_text(tokenizer_json(), "utf-8")
    write_engine(deployment.engine, ENGINE, into)
    if deployment.second is not None:
        write_engine(deployment.second, SECOND, into)
    (into / ENSEMBLE / "1").mkdir(parents=True, exist_ok=True)
    (into / ENSEMBLE / "config.pbtxt").write_text("".join(_ensemble()), "utf-8")
    return into


def write_engine(engine: Engine, name: str, into: Path) -> None:
    """Write an engine's folder, or bring its configuration up to date."""
    folder = into / name / "1"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(_MODELS / "engine_model.py", folder / "model.py")
    shutil.copy(_MODELS / "scheduling.py", folder)
    shutil.copy(_GAUGES, folder)
    values: dict[str, object] = {
        "gpt_model_type": "inflight_fused_batching",
        "batch_scheduler_policy": "max_utilization",
        "enable_chunked_context": "true",
        "max_batch_size": engine.slots,
        "max_tokens_in_paged_kv_cache": engine.tokens,
        "tokens_per_block": engine.block,
        "max_num_tokens": engine.budget,
        "free_blocks_kept": engine.kept,
        "scheduler": engine.scheduler,
        "cuda_graphs": int(engine.graphs),
        "warm": int(engine.warm),
        "layers": engine.layers,
        "hidden_size": engine.width,
        "vocabulary": VOCABULARY,
        "stats_check_period_ms": 100,
    }
    lines = [f'name: "{name}"\nbackend: "python"\nmax_batch_size: 64\n', *_parameters(values)]
    lines += ["instance_group [ { count: 1 kind: KIND_GPU gpus: [ 0 ] } ]\n"]
    lines += ["model_transaction_policy { decoupled: true }\n"] if engine.streams else []
    (into / name / "config.pbtxt").write_text("".join(lines), "utf-8")
    # What the verdict is for: a request that is refused would not be generated. Asked alone, an engine needs none.
    _tensors(
        into, name, "INPUT_IDS:TYPE_INT32:-1 MAX_TOKENS:TYPE_INT32:1 VERDICT:TYPE_FP32:1", "OUTPUT_IDS:TYPE_INT32:-1"
    )


def _stage(into: Path, name: str, stage: Stage, values: dict[str, object]) -> None:
    folder = into / name / "1"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(_MODELS / f"{name}_model.py", folder / "model.py")
    where = "KIND_GPU gpus: [ 0 ]" if stage.gpu else "KIND_CPU"
    lines = [f'name: "{name}"\nbackend: "python"\nmax_batch_size: {stage.batch}\n', *_parameters(values)]
    lines.append(f"instance_group [ {{ count: {stage.instances} kind: {where} }} ]\n")
    if stage.delay_us is not None:
        policy = f" default_queue_policy {{ max_queue_size: {stage.queue_limit} }}" if stage.queue_limit else ""
        lines.append(f"dynamic_batching {{ max_queue_delay_microseconds: {stage.delay_us}{policy} }}\n")
    (into / name / "config.pbtxt").write_text("".join(lines), "utf-8")


def _parameters(values: dict[str, object]) -> Iterator[str]:
    for key, value in values.items():
        yield f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def _tensors(into: Path, name: str, inputs: str, outputs: str) -> None:
    with (into / name / "config.pbtxt").open("a", encoding="utf-8") as file:
        for kind, tensors in (("input", inputs), ("output", outputs)):
            for tensor in tensors.split():
                own, data, size = tensor.split(":")
                file.write(f'{kind} [ {{ name: "{own}" data_type: {data} dims: [ {size} ] }} ]\n')


def _ensemble() -> Iterator[str]:
    yield f'name: "{ENSEMBLE}"\nplatform: "ensemble"\nmax_batch_size: 1\n'
    yield 'input [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] } ]\n'
    yield 'input [ { name: "MAX_TOKENS" data_type: TYPE_INT32 dims: [ 1 ] } ]\n'
    yield 'output [ { name: "ANSWER" data_type: TYPE_STRING dims: [ 1 ] } ]\nensemble_scheduling { step [\n'
    steps = (
        (TOKENIZER, ("TEXT",), ("INPUT_IDS", "HEAD_IDS")),
        (ENCODER, ("HEAD_IDS",), ("VECTOR",)),
        (CLASSIFIER, ("VECTOR",), ("VERDICT",)),
        (ENGINE, ("INPUT_IDS", "MAX_TOKENS", "VERDICT"), ("OUTPUT_IDS",)),
        (DETOKENIZER, ("OUTPUT_IDS",), ("ANSWER",)),
    )
    for number, (model, takes, gives) in enumerate(steps):
        maps = [f'input_map {{ key: "{one}" value: "{one}" }}' for one in takes]
        maps += [f'output_map {{ key: "{one}" value: "{one}" }}' for one in gives]
        comma = "," if number < len(steps) - 1 else ""
        yield f'  {{ model_name: "{model}" model_version: -1 {" ".join(maps)} }}{comma}\n'
    yield "] }\n"
