"""A queue that no finding explains is a part of the request that users wait for, not of the member's time."""

from __future__ import annotations

import pytest

from tests.builders import Stage, SyntheticTriton, chain

MEMBER = Stage("safety", rate=40.0, execution=0.025, queue=0.1)
ENTRY = Stage("chat", rate=40.0, execution=0.025, overhead=0.225)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (None, "requests wait 100 ms for safety, 80 % of their 125 ms"),
        (ENTRY, "requests wait 100 ms for safety, 40 % of the 250 ms of chat, which seems to call it"),
        (
            Stage("chat", rate=40.0, execution=0.025, overhead=0.225, config=chain("chat", "safety")),
            "requests wait 100 ms for safety, 40 % of the 250 ms of chat",
        ),
    ],
    ids=["called directly", "by what seems to be an ensemble", "by an ensemble"],
)
def test_an_unexplained_queue_is_a_share_of_the_entrys_request(entry: Stage | None, words: str) -> None:
    found = SyntheticTriton(models=(MEMBER, *((entry,) if entry else ()))).explain()
    assert words in [one.text for one in found.symptoms]
