"""A count is per group and per GPU: what is written makes at least as many instances as a check wants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.checks import instances
from diagnostics.checks.instances import instances_change
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.signal import Subject
from diagnostics.tuning.queueing import StageForecast, StageLoad, predict
from diagnostics.tuning.service import ServiceTime
from diagnostics.wire.model_config import InstanceGroup, ModelConfig
from tests.stated_evidence import SUBJECT, StatedEvidence


class Configured(StatedEvidence):
    """Evidence of a model with groups; without any, of one whose configuration was not read."""

    def __init__(self, *groups: InstanceGroup) -> None:
        super().__init__({})
        self._groups = groups

    def config(self, on: Subject) -> ModelConfig | None:
        return ModelConfig(name=on.model or "", instance_groups=self._groups) if self._groups else None


def group(count: int, *gpus: int, passive: bool = False) -> InstanceGroup:
    return InstanceGroup(kind="KIND_GPU" if gpus else "KIND_CPU", count=count, gpus=gpus, passive=passive)


@pytest.mark.parametrize(
    ("groups", "now", "wanted", "written", "words"),
    [
        ((), 1, 2, 2, "from 1 to 2"),
        ((group(1),), 1, 3, 3, "from 1 to 3"),
        ((group(1), group(2, passive=True)), 1, 3, 3, "from 1 to 3"),
        ((group(1, 0, 1),), 2, 3, 2, "from 1 to 2 (2 instances each: 2 to 4)"),
        ((group(2), group(2)), 4, 6, 3, "from 2 to 3 (2 instances each: 4 to 6)"),
        ((group(8, 0, 1),), 16, 5, 2, "from 8 to 2 (2 instances each: 16 to 4)"),
        ((group(1), group(2)), 3, 4, None, "from 3 to 4 instances in all"),
        ((group(1, 0, 1, 2, 3),), 4, 2, None, "from 4 to 2, on fewer GPUs"),
    ],
)
def test_the_count_that_is_written_makes_about_the_instances_that_are_wanted(
    groups: tuple[InstanceGroup, ...], now: int, wanted: int, written: int | None, words: str
) -> None:
    evidence = Configured(*groups)
    reported, change = instances_change(Ledger(evidence, evidence.entry), SUBJECT, now, wanted)

    assert reported.endswith(words)
    assert (change.settings[0].value if change else None) == written


SLOW = StageLoad(
    arrival_rate=1.5,
    service=ServiceTime(base=1.0, per_item=0.0, per_item_low=0.0, per_item_high=0.0),
    service_scv=1.0,
    instances=1,
    max_batch=0,
    batching=False,
    delay_seconds=0.0,
)


def spent(forecast: StageForecast) -> float:
    return (forecast.queue_seconds or 0.0) + forecast.compute_seconds


@pytest.mark.parametrize(("share", "count"), [(0.83, 3), (0.97, 2)])
def test_the_smallest_count_is_taken_that_brings_nearly_all_there_is(
    share: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two instances bring this share of what the best count brings; nine tenths would be enough."""
    two, best = (spent(predict(replace(SLOW, instances=number))) for number in (2, 8))
    now = (two - share * best) / (1 - share)
    monkeypatch.setattr(instances, "stage_load", lambda *_: SLOW)
    see = Ledger(StatedEvidence({}), lambda _: None)

    assert instances.scaling(see, SUBJECT, now).count == count
