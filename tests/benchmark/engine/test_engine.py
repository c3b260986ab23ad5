from __future__ import annotations

import importlib.util
import json
import lzma
import random
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from google.protobuf import text_format
from tokenizers import Tokenizer
from tritonclient.grpc import model_config_pb2

from diagnostics.checks.catalogue import catalogue
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind
from tests.benchmark.engine import HIDDEN, KINDS, SEED, drawn_all, is_calm, label_of
from tests.benchmark.engine.incidents import Change, Fault
from tests.benchmark.engine.world import ENGINE, Incident, text, tokenizer_json, write

FIXTURES = Path(__file__).parents[3] / "fixtures"
SETS = ("engine", "engine_unseen")
LABELS = {name: json.loads((FIXTURES / name / "labels.json").read_text("utf-8")) for name in SETS}
RECORDED = [(name, recording) for name in SETS for recording in sorted(LABELS[name])]
WAITING = re.compile(rb'nv_trt_llm_request_metrics\{model="engine",request_type="waiting",version="1"\} (\S+)')


def _scheduling() -> ModuleType:
    path = FIXTURES / "reference_engine/models/scheduling.py"
    spec = importlib.util.spec_from_file_location("scheduling", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@dataclass
class State:
    """A request, as transformers' continuous batching keeps it."""

    request_id: str
    generated_tokens: list[int] = field(default_factory=list)
    _true_initial_tokens: int = 0


@dataclass
class Cache:
    num_blocks: int = 100

    def get_num_free_blocks(self) -> int:
        return 30


@dataclass
class Scheduler:
    active_requests: dict[str, State]
    waiting_requests: dict[str, State]
    cache: Cache = field(default_factory=Cache)

    def schedule_batch(self, tokens: int, cache: int) -> tuple[list[Any], bool, int, int]:
        return [Future(state) for state in self.active_requests.values()], False, tokens, cache


@dataclass
class Future:
    state: State
    query_length: int = 1


def test_an_iteration_counts_what_its_scheduler_did() -> None:
    writes, reads, starved = State("writes", [4]), State("reads"), State("starved", [4])
    fresh, evicted = State("fresh"), State("evicted", [], 12)
    scheduler = Scheduler({s.request_id: s for s in (writes, reads, starved)}, {"fresh": fresh, "evicted": evicted})

    made = _scheduling().iteration_of(7, scheduler, [Future(writes), Future(reads, 200)])

    assert (made.scheduled, made.context, made.context_tokens, made.generation) == (2, 1, 200, 1)
    assert (made.waiting, made.paused, made.used_blocks, made.number) == (3, 2, 70, 7)


def test_the_last_token_of_a_prompt_is_still_read() -> None:
    last = State("last")

    made = _scheduling().iteration_of(1, Scheduler({"last": last}, {}), [Future(last, 1)])

    assert (made.context, made.generation) == (1, 0)


def test_an_observed_scheduler_tells_of_batches_and_of_nothing_else() -> None:
    noted: list[list[Any]] = []
    observed = _scheduling().observed(Scheduler, lambda _, batch: noted.append(batch))

    observed({"a": State("a")}, {}).schedule_batch(5, 6)
    observed({}, {}).schedule_batch(5, 6)

    assert [[one.state.request_id for one in batch] for batch in noted] == [["a"]]


def test_the_tokenizer_gives_back_what_it_read() -> None:
    tokenizer, sentence = Tokenizer.from_str(tokenizer_json()), text(random.Random(3), 30)
    ids = tokenizer.encode(sentence).ids

    assert tokenizer.decode(ids) == sentence
    assert 30 <= len(ids) < 40


@pytest.mark.parametrize("one", drawn_all(), ids=lambda one: one.kind)
def test_the_repository_of_a_kind_is_one_that_triton_reads(one: Any, tmp_path: Path) -> None:
    for number, incident in enumerate([one.fault.incident, *(change.incident for change in one.fault.changes)]):
        for path in write(incident.deployment, tmp_path / str(number)).glob("*/config.pbtxt"):
            config = text_format.Parse(path.read_text("utf-8"), model_config_pb2.ModelConfig())
            assert config.name == path.parent.name


@pytest.mark.parametrize(
    ("after", "cause"),
    [(50.0, ["kv-cache-exhausted"]), (80.0, ["healthy", "kv-cache-exhausted"]), (95.0, ["healthy"])],
)
def test_the_label_is_what_helped(after: float, cause: list[str]) -> None:
    change = Change(what="more cache", names=("kv-cache-exhausted",), incident=Incident())
    fault = Fault(incident=Incident(), changes=(change,))

    label = label_of(fault, 100.0, {"more cache": after})

    assert (label["cause"], label.get("abstain_ok", False)) == (cause, "healthy" in cause)


@pytest.mark.parametrize("name", SETS)
def test_every_recording_has_a_label_and_lies_where_its_kind_does(name: str) -> None:
    assert {path.name.removesuffix(".tar.xz") for path in (FIXTURES / name).glob("*.tar.xz")} == LABELS[name].keys()
    kinds = {label["kind"].removesuffix("_mended") for label in LABELS[name].values()}
    assert kinds <= KINDS.keys()
    assert (kinds <= HIDDEN) if name == "engine_unseen" else not kinds & HIDDEN


@pytest.mark.parametrize(("name", "recording"), RECORDED)
def test_labels_say_what_helped_when_it_was_tried(name: str, recording: str) -> None:
    label = LABELS[name][recording]
    if label["cause"] == "healthy":
        return
    fault = KINDS[label["kind"]](random.Random(f"{SEED}/{label['kind']}/0"))
    again = label_of(fault, label["mean_ms"], label["mean_ms_after"])
    assert {key: value for key, value in label.items() if key != "kind"} == again
    assert {*label["cause"], *label["also"]} <= {*catalogue(), "healthy"}


@pytest.mark.parametrize("name", SETS)
def test_clients_of_healthy_recordings_saw_nothing(name: str) -> None:
    points = json.loads(lzma.decompress((FIXTURES / name / "points.json.xz").read_bytes()))
    assert points.keys() <= LABELS[name].keys()
    for recording, point in points.items():
        if LABELS[name][recording]["cause"] == "healthy":
            felt_by, settled = point["incident"]["felt_by"], 3.0
            own = [request for request in point["requests"] if request[1] == felt_by and request[0] >= settled]
            times = sorted(request[2] for request in own)
            failed = sum(request[4] != 200 for request in own)
            assert is_calm(times[len(times) // 2], times[int(0.95 * (len(times) - 1))], failed), recording


@pytest.mark.parametrize(("name", "recording"), RECORDED)
def test_a_recording_shows_the_engine_and_its_card(name: str, recording: str) -> None:
    scrapes = list(open_capture(FIXTURES / name / f"{recording}.tar.xz").scrapes())
    kinds = {scrape.kind for scrape in scrapes}
    pages = [scrape.body or b"" for scrape in scrapes if scrape.kind is BodyKind.METRICS]
    waits = [float(found[1]) for page in pages if (found := WAITING.search(page))]

    assert {BodyKind.NVML, BodyKind.HOST, BodyKind.CLIENT, BodyKind.LOG, BodyKind.STATISTICS} <= kinds
    assert len(pages) >= 7
    if LABELS[name][recording]["cause"] == "healthy":
        # Nobody waits inside a healthy engine, but for a moment.
        assert sum(wait > 0 for wait in waits) <= 0.1 * len(pages)
    configured = [json.loads(scrape.body or b"{}") for scrape in scrapes if scrape.kind is BodyKind.CONFIG]
    assert ENGINE in {config["name"] for config in configured}
