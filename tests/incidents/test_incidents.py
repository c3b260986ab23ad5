"""What public reports say, said again from their figures; where they are not sure, only what must not be said."""

from __future__ import annotations

import re

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.diagnosis.explanation import Verdict
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.window.window import window_of
from tests.builders import explained, on
from tests.checks.designed import DESIGNED
from tests.incidents.story import CERTAIN, STATUSES, Story, stories, story_of
from tests.signals.named import named_signal

STORIES = stories()
each_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
ANYTHING = "any"


@each_story
def test_the_cause_is_named_and_no_other(story: Story) -> None:
    explanation = explained(window_of(story.scene.scrapes()))
    actionable = explanation.actionable

    if story.cause:
        assert actionable, (explanation.verdict, explanation.reason)
        first, summary = actionable[0].check, actionable[0].summary
        assert first in story.cause, f"{first} claims its time: {summary}"
        assert story.model in (None, actionable[0].subject.model)
    claimed = {finding.check: finding.summary for finding in actionable if finding.check in story.never}
    assert not claimed, f"tests/incidents/{story.name}.toml has another cause; rule it out"
    assert not actionable or ANYTHING not in story.never, actionable[0].summary
    assert not story.verdicts or explanation.verdict in story.verdicts, explanation.reason
    assert explanation.verdict not in story.never_verdicts
    assert set(story.noted) <= {finding.check for finding in explanation.findings} - {f.check for f in actionable}


@pytest.mark.parametrize("story", [story for story in STORIES if story.readings], ids=lambda story: story.name)
def test_the_figures_read_as_reported(story: Story) -> None:
    evidence = WindowEvidence(window_of(story.scene.scrapes()))

    for name, model, value in story.readings:
        assert evidence.read(named_signal(name), on(model)).value == pytest.approx(value, rel=0.02), name


@each_story
def test_a_story_names_its_source_and_claims_no_more_than_it_is_sure_of(story: Story) -> None:
    assert story.status in STATUSES
    assert re.match(r"https://\S+$", story.source)
    assert story.title.endswith(".")
    assert not story.cause or story.status in CERTAIN
    assert set(story.cause) <= set(catalogue())
    assert set(story.never) - {ANYTHING} <= set(DESIGNED)
    assert {*story.verdicts, *story.never_verdicts} <= set(Verdict)
    assert set(story.noted) <= set(catalogue())
    assert any((story.cause, story.never, story.verdicts, story.never_verdicts, story.noted, story.readings))


def test_a_misspelled_key_is_refused() -> None:
    reported = {"title": "T.", "source": "https://a", "status": "S", "expect": {"never": "any"}, "modle": []}
    with pytest.raises(ValueError, match="modle"):
        story_of("typo", reported)
