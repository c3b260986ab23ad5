"""Requests that wait in their client for a connection before they are sent, and whether the server is the reason."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import START, Stage, SyntheticTriton, explained, model_config

CHECK = "client-or-transport-bound"
TOOK = 0.02


def pooled(
    connections: int, *, burst: int = 20, every: float = 0.2, late: Sequence[float] = (), took: float = TOOK
) -> Scrape:
    """Return a client's record of bursts that wait for so many connections, each taken for 20 ms or for `took`.

    Args:
        connections: how many requests are under way at most.
        burst: how many requests are due at once.
        every: seconds between two bursts.
        late: how much later than a connection is free each is sent, in turn.

    """
    lines, sent = [], 0
    for number in range(round(60 / every)):
        free = [0.0] * connections
        for _ in range(burst):
            free.sort()
            delay = free[0] + (late[sent % len(late)] if late else 0.0)
            free[0], sent = free[0] + took, sent + 1
            row = {"t": START + number * every + delay, "model": "m", "ms": took * 1e3, "ok": True, "code": 200}
            lines.append(json.dumps({**row, "delay_ms": delay * 1e3}))
    return Scrape(server="", kind=BodyKind.CLIENT, at=START, mono=START, body="\n".join(lines).encode())


def explanation(clients: Scrape, *others: Stage, queue: float = 0.0, instances: int = 8) -> Explanation:
    """Return the explanation of a server that takes 19 ms of each of 100 requests a second."""
    stage = Stage(
        "m",
        rate=100,
        execution=0.019 - queue,
        queue=queue,
        config=model_config("m", groups=[{"kind": "KIND_CPU", "count": instances}]),
    )
    triton = SyntheticTriton(models=(stage, *others), cpu_busy=0.3)
    return explained(window_of([*triton.scrapes(), clients]))


def summaries(found: Explanation) -> list[str]:
    return [one.summary for one in found.actionable if one.check == CHECK]


def test_a_pool_of_four_connections_is_named_with_its_size() -> None:
    found = explanation(pooled(4))

    assert [one.check for one in found.actionable] == [CHECK]
    assert "wait 40 ms in their clients before they are sent: no more than 4 are under way" in summaries(found)[0]
    suggestion = found.actionable[0].suggestion
    assert suggestion is not None
    assert "raise the clients' connections (now 4)" in suggestion.text


def test_a_pool_that_is_large_enough_is_not() -> None:
    assert summaries(explanation(pooled(20))) == []


def test_a_client_that_is_late_for_another_reason_has_no_full_pool() -> None:
    (summary,) = summaries(explanation(pooled(20, late=[0.005 + 0.0004 * number**2 for number in range(20)])))

    assert "under way" not in summary


def test_what_holds_requests_on_their_way_keeps_connections_busy() -> None:
    assert not any(
        "before they are sent" in one for one in summaries(explanation(pooled(8, burst=40, took=0.05, every=0.4)))
    )


@pytest.mark.parametrize(
    ("queue", "instances", "others"),
    [
        (0.012, 8, ()),
        (0.0, 2, ()),
        (0.0, 8, (Stage("other", rate=20, execution=0.02, queue=0.2, config=model_config("other")),)),
    ],
    ids=["its requests wait at the server", "its instances are busy", "another model's requests wait"],
)
def test_a_server_that_is_slow_keeps_connections_busy(queue: float, instances: int, others: tuple[Stage, ...]) -> None:
    assert summaries(explanation(pooled(4), *others, queue=queue, instances=instances)) == []
