"""Clients that give up before their requests can be answered: the server counts those as successes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from diagnostics.window.window import window_of
from tests.builders import explained, model_config
from tests.builders_traffic import Did, sent, story_scrapes


def stated(waited: Sequence[float], *, server: float) -> str:
    """Return what is said where clients get no answer, each after its time, and a request takes so long."""
    record = sent([0.1 * number for number in range(len(waited))], waited)
    failed = replace(record, body=(record.body or b"").replace(b'"ok": true', b'"ok": false'))
    story = {("m", "1"): [Did(requests=20, seconds=server, infer=server)] * 18}
    explanation = explained(window_of([*story_scrapes(story, configs={"m": model_config("m")}), failed]))
    (symptom,) = (one for one in explanation.symptoms if "that clients sent to m failed" in one.text)
    return f"{symptom.text}; {symptom.next_measurement}"


ALIKE = [0.25 + 0.001 * (number % 5) for number in range(300)]
APART = [0.05 + 0.01 * (number % 40) for number in range(300)]


@pytest.mark.parametrize(
    ("waited", "server", "give_up"),
    [(ALIKE, 0.5, True), (ALIKE, 0.1, False), (APART, 0.5, False)],
    ids=["before they can be answered", "later", "at any time"],
)
def test_a_timeout_below_what_requests_take_is_named(waited: Sequence[float], server: float, *, give_up: bool) -> None:
    found = stated(waited, server=server)

    assert ("they give up after 252 ms, and a request takes 500 ms" in found) is give_up
    assert ("raise the clients' timeout" in found) is give_up
