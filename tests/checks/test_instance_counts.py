"""A count is per group and per GPU: what is written makes at least as many instances as a check wants."""

from __future__ import annotations

import pytest

from diagnostics.checks.instances import instances_change
from diagnostics.evidence.ledger import Ledger
from diagnostics.evidence.stated import SUBJECT, StatedEvidence
from diagnostics.signals.subject import Subject
from diagnostics.wire.model_config import InstanceGroup, ModelConfig


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
    told, change = instances_change(Ledger(evidence, evidence.entry), SUBJECT, now, wanted)

    assert told.endswith(words)
    assert (change.settings[0].value if change else None) == written
