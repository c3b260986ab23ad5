from __future__ import annotations

import json
from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from diagnostics.checks.catalogue import catalogue
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind
from tests.benchmark import again, fifth, fourth, third
from tests.benchmark.again import OddDrawn
from tests.benchmark.again.record import Change, OddIncident, label_of
from tests.benchmark.kinds import FAULTS as KINDS
from tests.benchmark.kinds import HARMLESS
from tests.benchmark.kinds.repository import write
from tests.benchmark.kinds.sights import SIGHTS
from tests.benchmark.kinds.world import Load, Model, World

FIXTURES = Path(__file__).parents[2] / "fixtures"


@dataclass(frozen=True, slots=True, kw_only=True)
class OddSet:
    """Recordings of kinds that nobody had named, and how far a change has to take off a mean to count as one."""

    folder: Path
    module: ModuleType
    named_before: Set[str]
    helps_below: float

    @property
    def labels(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "labels.json").read_text("utf-8"))
        return found

    @property
    def drawn(self) -> dict[str, OddDrawn]:
        return {one.name: one for one in self.module.drawn_all()}


NAMED = {*KINDS, *HARMLESS}
SETS = {
    "again": OddSet(folder=FIXTURES / "unnamed_again", module=again, named_before=NAMED, helps_below=0.5),
    "third": OddSet(
        folder=FIXTURES / "unnamed_third",
        module=third,
        named_before={*NAMED, *again.FAULTS, *again.LOOKALIKES},
        helps_below=0.6,
    ),
    "fourth": OddSet(
        folder=FIXTURES / "unnamed_fourth",
        module=fourth,
        named_before={*NAMED, *again.FAULTS, *again.LOOKALIKES, *third.FAULTS, *third.LOOKALIKES},
        helps_below=0.7,
    ),
    "fifth": OddSet(
        folder=FIXTURES / "unnamed_fifth",
        module=fifth,
        named_before={
            *NAMED,
            *(kind for odd in (again, third, fourth) for kind in (*odd.FAULTS, *odd.LOOKALIKES)),
        },
        helps_below=0.7,
    ),
}
FIRST = [one for odd in SETS.values() for one in odd.drawn.values() if one.seed == 0]
RECORDED = {f"{key}-{name}": (odd, name) for key, odd in SETS.items() for name in sorted(odd.labels)}
each_set = pytest.mark.parametrize("odd", SETS.values(), ids=SETS)
PLAIN = OddIncident(world=World(models=(Model(name="oak", base_ms=1.0),)), loads=(Load(model="oak", rate=1.0),))
TRIED = replace(
    PLAIN,
    changes=(
        Change(what="instances of oak", names=("single-instance-serialization",), incident=PLAIN, lanes_of="oak"),
        Change(what="no pauses", incident=PLAIN),
    ),
)


@pytest.mark.parametrize("one", FIRST, ids=lambda one: one.kind)
def test_the_repository_of_an_odd_kind_is_one_that_triton_reads(one: OddDrawn, tmp_path: Path) -> None:
    tried = [one.incident, *(change.incident for change in one.incident.changes)]
    for number, incident in enumerate(tried):
        repository = write(incident.world, tmp_path / f"{number}", tmp_path / f"control-{number}")
        for path in repository.glob("*/config.pbtxt"):
            config = text_format.Parse(path.read_text("utf-8"), model_config_pb2.ModelConfig())
            assert config.name == path.parent.name


@each_set
def test_no_kind_is_one_that_was_named_before(odd: OddSet) -> None:
    assert not {*odd.module.FAULTS, *odd.module.LOOKALIKES} & odd.named_before


@each_set
def test_a_third_and_more_of_the_kinds_is_harmless(odd: OddSet) -> None:
    assert len(odd.module.LOOKALIKES) >= len(odd.module.FAULTS) / 2
    assert {label["kind"] for label in odd.labels.values() if label["cause"] == "healthy"} == {*odd.module.LOOKALIKES}


@each_set
def test_every_odd_recording_has_a_label_and_every_label_a_recording(odd: OddSet) -> None:
    assert {path.name.removesuffix(".tar.xz") for path in odd.folder.glob("*.tar.xz")} == odd.labels.keys()
    assert odd.labels.keys() == odd.drawn.keys()


@each_set
def test_odd_labels_say_what_was_drawn_and_what_helped(odd: OddSet) -> None:
    drawn = odd.drawn
    for name, label in odd.labels.items():
        one = drawn[name]
        assert (label["kind"], label["sight"]) == (one.kind, one.incident.sight), name
        if label["cause"] != "healthy":
            tried = label["mean_ms_after"]
            again = label_of(one.incident, label["mean_ms"], tried)
            assert again == {key: value for key, value in label.items() if key != "kind"}, name
            assert {*label["cause"], *label["also"]} <= {*catalogue(), "healthy"}, name
            assert min(tried.values()) < odd.helps_below * label["mean_ms"], name


@pytest.mark.parametrize(
    ("tried", "cause", "vain"),
    [
        ({"instances of oak": 12.0, "no pauses": 10.0}, ["single-instance-serialization"], None),
        ({"instances of oak": 95.0, "no pauses": 10.0}, [], ["oak"]),
    ],
)
def test_the_label_of_an_odd_incident_names_what_helped(
    tried: dict[str, float], cause: list[str], vain: list[str] | None
) -> None:
    label = label_of(TRIED, 100.0, tried)

    assert (label["cause"], label.get("no_gain"), label.get("abstain_ok", False)) == (cause, vain, not cause)


@pytest.mark.parametrize(("odd", "name"), RECORDED.values(), ids=RECORDED)
def test_an_odd_recording_shows_what_its_sight_shows(odd: OddSet, name: str) -> None:
    sight = SIGHTS[odd.labels[name]["sight"]]
    scrapes = list(open_capture(odd.folder / f"{name}.tar.xz").scrapes())
    kinds = {scrape.kind for scrape in scrapes}

    assert sum(scrape.kind is BodyKind.METRICS for scrape in scrapes) >= 4
    assert not kinds & sight.hidden
    assert (BodyKind.CLIENT in kinds) == sight.clients
    assert not any(b"standin" in scrape.body for scrape in scrapes if scrape.body)
