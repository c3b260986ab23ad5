"""Load that is sent by profile, and requests that differ: by the one sender, to a server that answers at once."""

from __future__ import annotations

import json
import threading

import pytest

from diagnostics.errors import UsageError
from diagnostics.loadgen.driving import Action, run_load
from diagnostics.loadgen.load import LoadProfile, LoadProgress, Pattern
from tests.benchmark.kinds.clients import send
from tests.benchmark.kinds.world import Load
from tests.loadgen.fake_server import FakeTriton

SHORT = LoadProfile(model="llm", rate=50, duration=1.0)


def test_a_profile_is_sent_when_it_is_due_with_prompts_that_differ() -> None:
    seen: list[LoadProgress] = []
    done: list[str] = []
    with FakeTriton().running() as server:
        records = run_load(
            server.url, SHORT, actions=[Action(at=0.3, do=lambda: done.append("once"))], progress=seen.append
        )
    assert len(records) == 50
    assert all(one.ok and one.code == 200 and one.model == "llm" for one in records)
    assert [one.t for one in records] == sorted(one.t for one in records)
    assert max(one.delay_ms for one in records) < 500
    assert done == ["once"]
    assert seen[-1].answered > 0
    assert seen[-1].errors == 0
    assert len({len(body) for body in server.bodies}) > 3


def test_a_load_goes_on_while_nobody_answers_and_ends_once_it_is_stopped() -> None:
    with FakeTriton(lives_for=5).running() as server:
        records = run_load(server.url, SHORT, request_timeout=1.0)
    assert len(records) == 50
    assert sum(one.ok for one in records) == 5
    stop = threading.Event()
    with FakeTriton().running() as server:
        stopped = run_load(
            server.url,
            LoadProfile(model="llm", pattern=Pattern.CLOSED, concurrency=2, duration=60),
            actions=[Action(at=0.2, do=stop.set)],
            stop=stop,
        )
    assert stopped


def test_a_model_that_is_not_there_is_one_clear_error() -> None:
    with FakeTriton().running() as server, pytest.raises(UsageError, match="no model 'mll'"):
        run_load(server.url, LoadProfile(model="mll", rate=1, duration=1))


def test_clients_send_sequences_in_order_and_think_between_requests() -> None:
    with FakeTriton().running() as server:
        loads = (Load(model="llm", rate=30, turns=3, pause=0.01), Load(model="llm", clients=2, think=0.2, start=0.3))
        records = send(loads, server.url, 1.0, seed=1)
    asked = [json.loads(body)["parameters"] for body in server.bodies]
    turns = [one for one in asked if one]
    assert all(one.ok for one in records)
    assert len(records) == len(asked)
    assert sum(one["sequence_start"] for one in turns) == sum(one["sequence_end"] for one in turns) == 10
    assert len(turns) == 30
    # Two clients for 0.7 s, each of which thinks 0.1 to 0.3 s.
    assert 4 <= len(asked) - len(turns) <= 14
