from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from diagnostics.checks.catalogue import catalogue
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind
from tests.benchmark.again import FAULTS as FAULTS_AGAIN
from tests.benchmark.again import LOOKALIKES as LOOKALIKES_AGAIN
from tests.benchmark.again import OddDrawn
from tests.benchmark.again.record import label_of
from tests.benchmark.kinds import FAULTS as KINDS
from tests.benchmark.kinds import HARMLESS
from tests.benchmark.kinds.repository import write
from tests.benchmark.kinds.sights import SIGHTS
from tests.benchmark.third import FAULTS, LOOKALIKES, drawn_all

FOLDER = Path(__file__).parents[3] / "fixtures/unnamed_third"
LABELS = json.loads((FOLDER / "labels.json").read_text("utf-8"))
DRAWN = {one.name: one for one in drawn_all()}


@pytest.mark.parametrize("one", [one for one in drawn_all() if one.seed == 0], ids=lambda one: one.kind)
def test_the_repository_of_a_third_kind_is_one_that_triton_reads(one: OddDrawn, tmp_path: Path) -> None:
    tried = [one.incident, *(change.incident for change in one.incident.changes)]
    for number, incident in enumerate(tried):
        repository = write(incident.world, tmp_path / f"{number}", tmp_path / f"control-{number}")
        for path in repository.glob("*/config.pbtxt"):
            config = text_format.Parse(path.read_text("utf-8"), model_config_pb2.ModelConfig())
            assert config.name == path.parent.name


def test_no_third_kind_was_named_before() -> None:
    assert not {*FAULTS, *LOOKALIKES} & {*KINDS, *HARMLESS, *FAULTS_AGAIN, *LOOKALIKES_AGAIN}


def test_a_third_of_these_kinds_is_harmless() -> None:
    assert len(LOOKALIKES) >= len(FAULTS) / 2
    assert {label["kind"] for label in LABELS.values() if label["cause"] == "healthy"} == {*LOOKALIKES}


def test_every_third_recording_has_a_label_and_every_label_a_recording() -> None:
    assert {path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz")} == LABELS.keys() == DRAWN.keys()


def test_third_labels_say_what_was_drawn_and_what_helped() -> None:
    for name, label in LABELS.items():
        one = DRAWN[name]
        assert (label["kind"], label["sight"]) == (one.kind, one.incident.sight), name
        if label["cause"] != "healthy":
            tried = label["mean_ms_after"]
            again = label_of(one.incident, label["mean_ms"], tried)
            assert again == {key: value for key, value in label.items() if key != "kind"}, name
            assert {*label["cause"], *label["also"]} <= {*catalogue(), "healthy"}, name
            assert min(tried.values()) < 0.6 * label["mean_ms"], name


@pytest.mark.parametrize("name", sorted(LABELS))
def test_a_third_recording_shows_what_its_sight_shows(name: str) -> None:
    sight = SIGHTS[LABELS[name]["sight"]]
    scrapes = list(open_capture(FOLDER / f"{name}.tar.xz").scrapes())
    kinds = {scrape.kind for scrape in scrapes}

    assert sum(scrape.kind is BodyKind.METRICS for scrape in scrapes) >= 4
    assert not kinds & sight.hidden
    assert (BodyKind.CLIENT in kinds) == sight.clients
    assert not any(b"standin" in scrape.body for scrape in scrapes if scrape.body)
