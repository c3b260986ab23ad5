"""A service's causes are judged by forecasts as the command's are: on its board, its page and its API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.request import urlopen

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.validation import DOUBTED_CONFIDENCE
from tests.builders import Stage, SyntheticTriton, chain, model_config
from tests.diagnosis.test_off_the_path import FULL, WINDOW, forked
from tests.diagnosis.test_same_load_same_answer import served
from tests.service.serving import Serving

# Busy 76 % of the time, an instance makes requests wait some tens of milliseconds.
UNLIKE = (
    Stage("safety", rate=38, execution=0.02, queue=5.4, config=model_config("safety")),
    Stage("chat", rate=38, overhead=5.422, config=chain("chat", "safety")),
)
SAYS = "but 5.42 s was measured"


def doubted() -> Explanation:
    return served(SyntheticTriton(models=UNLIKE).scrapes())


@pytest.mark.parametrize("right", [WINDOW, FULL], ids=["window", "full"])
def test_a_change_that_saves_nothing_leaves_no_cause(right: Stage) -> None:
    found = served(forked(right, left=0.1, whole=0.109).scrapes())

    assert found.verdict is Verdict.HEALTHY
    assert not [one for one in found.findings if one.subject.model == "right"]


def test_the_same_stage_is_the_cause_where_nothing_outlasts_it() -> None:
    found = served(forked(FULL, left=0.01, whole=0.0935).scrapes())

    assert [(one.check, one.subject.model) for one in found.actionable] == [("single-instance-serialization", "right")]


def test_no_cause_is_sure_where_the_window_is_not_reproduced() -> None:
    found = doubted()

    assert found.actionable
    for one in found.actionable:
        assert one.confidence <= DOUBTED_CONFIDENCE
        assert SAYS in one.doubt


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with Serving(["chat"]) as running:
        running.stated("chat", doubted())
        yield running


def test_the_state_that_watchers_read_says_so(serving: Serving) -> None:
    with urlopen(f"{serving.url}/api/v1/state") as answer:
        (deployment,) = json.load(answer)["deployments"]

    assert deployment["findings"][0]["confidence"] <= DOUBTED_CONFIDENCE
    assert SAYS in deployment["findings"][0]["doubt"]


def test_the_page_says_so(serving: Serving) -> None:
    with urlopen(f"{serving.url}/deployments/chat") as answer:
        page = answer.read().decode()

    assert SAYS in page
