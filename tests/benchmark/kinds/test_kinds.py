from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from diagnostics.checks.catalogue import catalogue
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind
from tests.benchmark.kinds import FAULTS, HARMLESS, Drawn, drawn_all, held_out
from tests.benchmark.kinds.repository import write
from tests.benchmark.kinds.sights import SIGHTS

FIXTURES = Path(__file__).parents[3] / "fixtures"
LABELS = {folder: json.loads((FIXTURES / folder / "labels.json").read_text("utf-8")) for folder in ("kinds", "unnamed")}
RECORDED = [(folder, name) for folder, own in LABELS.items() for name in own]
DRAWN = {one.name: one for one in drawn_all()}


@pytest.mark.parametrize("one", [one for one in drawn_all() if one.seed == 0], ids=lambda one: one.kind)
def test_the_repository_of_a_kind_is_one_that_triton_reads(one: Drawn, tmp_path: Path) -> None:
    repository = write(one.incident.world, tmp_path / "repository", tmp_path / "control")

    for path in repository.glob("*/config.pbtxt"):
        config = text_format.Parse(path.read_text("utf-8"), model_config_pb2.ModelConfig())
        assert config.name == path.parent.name


def test_a_third_of_the_kinds_is_held_out_whole() -> None:
    assert len(held_out()) == pytest.approx((len(FAULTS) + len(HARMLESS)) / 3, abs=1)
    assert {label["kind"] for label in LABELS["unnamed"].values()} == held_out()
    assert not {label["kind"] for label in LABELS["kinds"].values()} & held_out()


def test_there_are_recordings_of_every_kind() -> None:
    assert len(RECORDED) >= 150
    assert {LABELS[folder][name]["kind"] for folder, name in RECORDED} == {*FAULTS, *HARMLESS}


def test_every_recording_has_a_label_and_every_label_a_recording() -> None:
    for folder, own in LABELS.items():
        assert {path.name.removesuffix(".tar.xz") for path in (FIXTURES / folder).glob("*.tar.xz")} == own.keys()


def test_labels_name_checks_that_exist_and_what_was_drawn() -> None:
    ids = set(catalogue())
    for folder, name in RECORDED:
        label, one = LABELS[folder][name], DRAWN[name]
        causes = [] if label["cause"] == "healthy" else label["cause"]
        assert {*causes, *label.get("also", [])} <= {*ids, "healthy"}, name
        assert {*causes} <= {*one.incident.causes}, name
        assert (label["kind"], label["sight"]) == (one.kind, one.incident.sight), name
        assert bool(label.get("abstain_ok")) == one.incident.abstain_ok, name


@pytest.mark.parametrize(("folder", "name"), RECORDED)
def test_a_recording_shows_what_its_sight_shows_and_hides_the_stand_ins(folder: str, name: str) -> None:
    sight = SIGHTS[LABELS[folder][name]["sight"]]
    scrapes = list(open_capture(FIXTURES / folder / f"{name}.tar.xz").scrapes())
    kinds = {scrape.kind for scrape in scrapes}

    assert sum(scrape.kind is BodyKind.METRICS for scrape in scrapes) >= 4
    assert not kinds & sight.hidden
    assert (BodyKind.CLIENT in kinds) == sight.clients
    assert sight.traces or BodyKind.TRACES not in kinds
    assert not any(b"standin" in scrape.body for scrape in scrapes if scrape.body)
