"""Deploys that nobody posts: what servers and pods show of them is on the timelines, and survives a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from diagnostics.service.attention import Attention
from diagnostics.service.found_servers import FoundServer, found_server
from diagnostics.service.observed import ObservedChanges, Rollouts, _marks
from diagnostics.service.state import Evaluation
from diagnostics.settings.tree import KubernetesDiscoverySettings
from diagnostics.store.journal import JournalAction, JournalEntry
from diagnostics.tuning.changes import SettingChange
from diagnostics.window.lifecycle import Happened, ServerChange
from exporters.sources.target_list import FoundTarget
from tests.service.serving import recorded
from tests.store.lived import opened

AT = 1_795_813_240.0


def change(kind: Happened, model: str = "", at: float = AT, version: str = "") -> ServerChange:
    return ServerChange(since=at, at=at, kind=kind, model=model, version=version, source="statistics")


def marks(*changes: ServerChange) -> list[tuple[str, str, float]]:
    return list(_marks(changes, "triton-0"))


def test_a_load_that_servers_show_is_an_event_of_its_deployment_once() -> None:
    attention = Attention()
    watched = ObservedChanges(attention)
    explanation = recorded("cpu-handed-cold-start")
    for _ in range(2):
        watched.consume(Evaluation(deployment="chat", at=AT, took=0.0, lag=0.0, explanation=explanation))

    (event,) = attention.events("chat")

    assert (event.action, event.who, event.kind) == (JournalAction.OBSERVED, "diag", "loaded")
    assert event.text.startswith("safety version 2 loaded on ")
    assert [one.text for one in attention.marks("chat", event.start - 1, event.start + 1)] == [event.text]
    assert attention.events("other") == []
    assert attention.entries() == []  # nobody wrote it: the audit has none


def test_models_that_are_loaded_within_a_minute_are_one_mark() -> None:
    loads = [change(Happened.LOADED, f"m{number}", AT + number) for number in range(5)]

    assert marks(*loads, change(Happened.LOADED, "late", AT + 90)) == [
        ("loaded", "m0, m1, m2 and 2 more loaded on triton-0", AT),
        ("loaded", "late loaded on triton-0", AT + 90),
    ]


def test_settings_that_change_together_are_one_mark_with_each_change() -> None:
    changes = [
        replace(
            change(Happened.CONFIGURED, name),
            settings=(SettingChange(model=name, path="instance_group.count", before="1", after="2"),),
        )
        for name in ("fast", "slow")
    ]

    ((kind, text, _),) = marks(*changes)

    assert kind == "reconfigured"
    assert text == "settings of fast changed: count 1 → 2; settings of slow changed: count 1 → 2 on triton-0"


def test_a_restart_is_marked_without_the_loads_that_it_brings() -> None:
    assert marks(change(Happened.RESTARTED), change(Happened.LOADED, "m", AT + 20)) == [
        ("restarted", "server restarted on triton-0", AT)
    ]


def observed(text: str, at: float, origin: str = "triton-0") -> JournalEntry:
    return JournalEntry(
        action=JournalAction.OBSERVED,
        at=at,
        who="diag",
        origin=origin,
        deployment="chat",
        start=at,
        kind="loaded",
        text=text,
    )


@pytest.mark.parametrize(
    ("at", "origin", "texts"),
    [
        (AT + 59, "triton-0", ["a, b loaded"]),
        (AT + 61, "triton-0", ["a, b loaded", "a loaded"]),
        (AT + 1, "triton-1", ["a, b loaded", "a loaded"]),
    ],
)
def test_what_is_seen_twice_is_one_event_with_all_its_models(at: float, origin: str, texts: list[str]) -> None:
    attention = Attention()
    attention.observe(observed("a loaded", AT))
    attention.observe(observed("a, b loaded", at, origin))

    assert [one.text for one in attention.events("chat")] == texts


def pod(number: int, image: str, revision: str) -> FoundServer:
    labels = {"pod": f"triton-{number}", "image": image, "revision": revision}
    place = f"10.0.0.{number}:8000"
    target = FoundTarget(url=f"http://{place}", place=place, labels=labels)
    return found_server(target, "kubernetes", KubernetesDiscoverySettings(namespace="ml", selector="app=triton"))


def rolled(*rounds: list[FoundServer]) -> list[str]:
    attention = Attention()
    times = iter(AT + 120 * number for number in range(100))
    watch = Rollouts(attention, lambda: next(times))
    for found in rounds:
        watch.look(found, {one.server.url: "chat" for one in found})
    return [one.text for one in reversed(attention.events("chat"))]


OLD, NEW = pod(1, "triton:25.01", "7c9"), pod(2, "triton:25.02", "8d1")


def test_pods_of_a_new_image_are_a_rollout_and_a_rollback_is_another() -> None:
    assert rolled([OLD], [OLD, NEW], [NEW], [NEW], [OLD]) == [
        "image triton:25.02 rolled out, before: triton:25.01",
        "image triton:25.01 rolled out, before: triton:25.02",
    ]


def test_a_new_revision_of_the_same_image_is_a_rollout() -> None:
    assert rolled([OLD], [pod(2, "triton:25.01", "8d1")]) == ["revision 8d1 rolled out, image triton:25.01"]


def test_pods_that_are_seen_first_or_come_back_are_none() -> None:
    assert rolled([OLD], [], [OLD], [OLD, pod(3, "triton:25.01", "7c9")]) == []


def test_servers_without_pods_are_none() -> None:
    place = "triton:8000"
    named = FoundTarget(url=f"http://{place}", place=place, labels={"team": "chat"})
    plain = found_server(named, "file", KubernetesDiscoverySettings(namespace="ml", selector="a=b"))

    assert rolled([plain], [plain]) == []


def test_what_was_seen_is_there_after_a_restart(tmp_path: Path) -> None:
    history = opened(tmp_path)
    history.start()
    attention = Attention(put=history.put_entry)
    attention.observe(observed("a loaded", AT))
    attention.observe(observed("a, b loaded", AT + 5))
    history.stop()

    again = Attention(earlier=opened(tmp_path).journal())
    again.observe(observed("a, b loaded", AT + 5))

    assert [one.text for one in again.events("chat")] == ["a, b loaded"]
