"""A setting that is changed in place is an event: each side of it is judged by its own settings."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.incident import Ending, IncidentBook
from diagnostics.render import phrases
from diagnostics.render.explanation.json import report
from diagnostics.window.rolling import RollingWindow
from diagnostics.window.stretches import Stretches, settings_changed, stretches
from diagnostics.window.window import window_of
from diagnostics.wire.records import Scrape
from tests.builders import START, Stage, SyntheticTriton, model_config
from tests.builders import explained as explained_window
from tests.builders_changes import changed_in_place, config_read
from tests.render.shown import text

CHANGE = 65.0  # the round in which the change of read 12 is seen


def safety(count: int, *, queue: float, **config: object) -> Stage:
    """Return a model whose executions of 24 ms keep 0.97 of one instance busy."""
    made = model_config("safety", groups=({"kind": "KIND_CPU", "count": count},), **config)
    return Stage("safety", rate=40.0, execution=0.0243, queue=queue, config=made)


FULL, FREE = safety(1, queue=0.4), safety(2, queue=0.002)


def cut(scrapes: list[Scrape]) -> Stretches | None:
    window = window_of(scrapes)
    return stretches(window, settings_changed(window))


def explained(scrapes: list[Scrape], *, present: bool = False) -> Explanation:
    return explained_window(window_of(scrapes), present=present)


def test_each_side_has_the_instances_of_its_time() -> None:
    sides = cut(changed_in_place(FULL, FREE))
    assert sides is not None
    counts = [
        next(iter(side.servers.values())).configs["safety"].instance_groups[0].count
        for side in (sides.before, sides.after)
    ]
    assert counts == [1, 2]
    assert (sides.before.end - START, sides.after.start - START) == (60.0, CHANGE)


def test_after_the_fix_the_present_is_healthy_and_the_past_is_reported_with_what_ended_it() -> None:
    scrapes = changed_in_place(FULL, FREE)
    assert explained(scrapes, present=True).verdict is Verdict.HEALTHY
    reported = explained(scrapes)
    assert [(one.check, one.ended is not None) for one in reported.actionable] == [
        ("single-instance-serialization", True)
    ]
    assert reported.actionable[0].suggestion is None
    assert "until" in reported.actionable[0].summary
    assert "count 1 → 2" in reported.actionable[0].summary


def test_a_change_that_brings_a_fault_is_its_onset() -> None:
    reported = explained(changed_in_place(FREE, FULL))
    (found,) = reported.actionable
    assert found.check == "single-instance-serialization"
    assert found.ended is None
    assert found.onset is not None
    assert str(found.onset.change) == "settings of safety changed: count 2 → 1"
    assert found.suggestion is not None


def test_the_change_is_reported_wherever_the_window_is() -> None:
    reported = explained(changed_in_place(FREE, FULL))
    line = "settings of safety changed 13:47:45: count 2 → 1"
    assert phrases.changes(reported) == [line]
    assert line in text(reported)
    (change,) = report(reported)["changes"]
    assert change["settings"] == [{"path": "instance_group.count", "before": "2", "after": "1"}]


def test_a_configuration_that_is_read_again_unchanged_cuts_nothing() -> None:
    assert cut(changed_in_place(FULL, FULL)) is None


def test_a_change_of_a_model_without_requests_cuts_nothing_and_is_reported() -> None:
    scrapes = changed_in_place(*(replace(stage, rate=0.0) for stage in (FULL, FREE)))
    assert cut(scrapes) is None
    assert phrases.changes(explained(scrapes)) == ["settings of safety changed 13:47:45: count 1 → 2"]


def test_a_change_that_no_request_feels_cuts_nothing_and_is_reported() -> None:
    scrapes = changed_in_place(FREE, safety(2, queue=0.002, version_policy={"all": {}}))
    assert cut(scrapes) is None
    reported = explained(scrapes)
    assert phrases.changes(reported) == ["settings of safety changed 13:47:45: version_policy latest:1 → all"]
    assert reported.cuts == ()


SETTINGS = {
    "delay": {"batching": {"max_queue_delay_microseconds": 5000}, "max_batch": 8},
    "preferred sizes": {"batching": {"preferred_batch_size": [4]}, "max_batch": 8},
    "queue limit": {"batching": {"default_queue_policy": {"max_queue_size": 16}}, "max_batch": 8},
    "timeout": {"batching": {"default_queue_policy": {"default_timeout_microseconds": 100}}, "max_batch": 8},
    "priorities": {"batching": {"priority_levels": 2}, "max_batch": 8},
    "ordering": {"batching": {"preserve_ordering": True}, "max_batch": 8},
    "batcher off": {"max_batch": 8},
    "batch size": {"batching": {}, "max_batch": 16},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_each_setting_that_a_patch_can_change_cuts_the_window_both_ways(setting: str) -> None:
    plain = safety(2, queue=0.002, batching={}, max_batch=8)
    other = safety(2, queue=0.002, **SETTINGS[setting])
    for first, second in ((plain, other), (other, plain)):
        reported = explained(changed_in_place(first, second), present=True)
        assert len(reported.changes) == 1
        assert reported.verdict is Verdict.HEALTHY


class Watched:
    """A service's window and incidents, a verdict per round."""

    def __init__(self) -> None:
        self.window, self.book = RollingWindow("chat", 300.0), IncidentBook("chat")
        self.stated: list[tuple[float, str, Ending | None]] = []
        self.verdicts: list[tuple[float, Verdict]] = []

    def live(self, scrapes: list[Scrape]) -> Watched:
        rounds = sorted({scrape.mono // 1 for scrape in scrapes})
        for start in rounds:
            for scrape in scrapes:
                if scrape.mono // 1 == start:
                    self.window.add(scrape)
            reported = explained_window(self.window.window(), present=True)
            self.verdicts.append((start - START, reported.verdict))
            for change in self.book.update(reported, start, start):
                self.stated.append((start - START, change.kind.value, change.incident.ending))
        return self


def test_an_incident_ends_two_rounds_after_its_settings_were_changed() -> None:
    stated = Watched().live(changed_in_place(FULL, FREE, at=20, reads=30)).stated
    (ended,) = [one for one in stated if one[1] == "closed"]
    change = 21 * 5.0
    assert ended == (change + 2 * 5.0, "closed", Ending.CHANGED)


def test_a_fault_that_a_change_brings_back_opens_an_incident() -> None:
    stated = Watched().live(changed_in_place(FREE, FULL, at=40, reads=50)).stated
    opened = [at for at, kind, _ in stated if kind == "opened"]
    assert opened
    assert opened[0] <= 41 * 5.0 + 4 * 5.0


def test_a_change_of_another_models_settings_proves_nothing() -> None:
    other = [
        Stage(
            "other", rate=40.0, execution=0.01, config=model_config("other", groups=({"kind": "KIND_CPU", "count": n},))
        )
        for n in (1, 2)
    ]
    scrapes = SyntheticTriton(models=(FULL, other[0])).scrapes(30)
    watched = Watched().live(sorted([*scrapes, config_read(other[1], 105.05)], key=lambda one: one.mono))
    assert [kind for _, kind, _ in watched.stated if kind != "updated"] == ["opened"]


def test_too_little_since_a_change_says_how_much_is_missing() -> None:
    slow = [replace(stage, rate=0.3, queue=0.0) for stage in (FULL, FREE)]
    reported = explained(changed_in_place(*slow), present=True)

    assert reported.verdict is Verdict.IDLE
    assert reported.reason.startswith("settings of safety changed: count 1 → 2 ")
    assert re.search(r" s ago, at \S+13:47:45Z: 14 of 30 requests needed to judge completed since$", reported.reason)
