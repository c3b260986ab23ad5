from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.window.lifecycle import Happened, ServerChange, changes
from diagnostics.window.window import Window, window_of
from diagnostics.wire.records import BodyKind
from tests.builders import SERVER, START, Stage, SyntheticTriton
from tests.builders_traffic import Did, indexed, logged, reported, story_scrapes

BUSY = Did(requests=40)
READY = "READY"


def happened(window: Window) -> list[ServerChange]:
    return [change for change in changes(window.servers[SERVER]) if window.start <= change.at <= window.end]


def test_a_server_to_which_nothing_happens_has_no_changes() -> None:
    assert happened(reported({("m", "1"): [BUSY] * 6})) == []


def test_a_version_that_appears_in_the_counters_was_loaded() -> None:
    window = reported({("m", "1"): [BUSY] * 6, ("m", "2"): [Did(absent=True)] * 3 + [BUSY] * 3})
    (change,) = happened(window)

    assert (change.kind, change.model, change.version) == (Happened.LOADED, "m", "2")
    assert (change.since - START, change.at - START) == (6.0, 8.0)


def test_statistics_that_start_anew_while_metrics_go_on_are_a_reload_in_place() -> None:
    steady = story_scrapes({("m", "1"): [BUSY] * 6, ("n", "1"): [BUSY] * 6})
    reset = story_scrapes({("m", "1"): [BUSY] * 3 + [Did(requests=10, anew=True)] + [BUSY] * 2, ("n", "1"): [BUSY] * 6})
    mixed = [s for s in steady if s.kind is BodyKind.METRICS] + [s for s in reset if s.kind is BodyKind.STATISTICS]
    (change,) = happened(window_of(mixed))

    assert (change.kind, change.model) == (Happened.RELOADED, "m")


def test_counters_of_every_model_that_start_anew_are_a_restart_and_no_loads() -> None:
    story = [BUSY] * 3 + [Did(requests=10, anew=True)] + [BUSY] * 2
    (change,) = happened(reported({("m", "1"): story, ("n", "1"): story}))

    assert (change.kind, change.model) == (Happened.RESTARTED, "")
    assert str(change) == "server restarted"


def test_the_log_gives_the_exact_time_and_no_event_is_reported_twice() -> None:
    story = {("m", "1"): [BUSY] * 6, ("m", "2"): [Did(absent=True)] * 3 + [BUSY] * 3}
    log = logged(
        'I0112 13:46:45.500000 1 model_lifecycle.cc:472] "loading: m:2"',
        "I0112 13:46:46.500000 1 model_lifecycle.cc:839] \"successfully loaded 'm'\"",
    )
    index = [indexed(4.0, ("m", "1", READY, "")), indexed(8.0, ("m", "1", READY, ""), ("m", "2", READY, ""))]
    (change,) = happened(window_of([*story_scrapes(story), log, *index]))

    assert (change.source, change.version) == ("log", "2")
    assert (change.since - START, change.at - START) == (5.5, 6.5)


@pytest.mark.parametrize(
    ("state", "reason", "kind"),
    [
        ("UNAVAILABLE", "Internal: no such file", Happened.LOAD_FAILED),
        ("UNAVAILABLE", "unloaded", Happened.UNLOADED),
    ],
)
def test_the_index_tells_failed_loads_from_unloads(state: str, reason: str, kind: Happened) -> None:
    index = [indexed(4.0, ("m", "2", "LOADING", "")), indexed(8.0, ("m", "2", state, reason))]
    (change,) = happened(window_of([*story_scrapes({("m", "1"): [BUSY] * 6}), *index]))

    assert change.kind is kind
    assert change.reason == (reason if kind is Happened.LOAD_FAILED else "")


def test_a_load_that_had_failed_before_the_window_is_seen_at_its_start() -> None:
    index = indexed(1.0, ("m", "2", "UNAVAILABLE", "no such file"))
    (change,) = happened(window_of([*story_scrapes({("m", "1"): [BUSY] * 6}), index]))

    assert change.kind is Happened.LOAD_FAILED


def test_a_load_duration_that_changes_is_a_load() -> None:
    def durations(read: int) -> list[str]:
        return [f'nv_model_load_duration_secs{{model="m",version="1"}} {4.0 if read < 3 else 2.5}']

    window = SyntheticTriton(models=(Stage("m", rate=10, execution=0.01),), extra_metrics=durations).window(8)
    (change,) = happened(window)

    assert change.kind is Happened.RELOADED
    assert change.at - START == 15.0
    assert change.since - START == 12.5


def test_other_settings_are_a_change() -> None:
    reported_twice = [
        *story_scrapes({("m", "1"): [BUSY] * 6}, configs={"m": {"name": "m", "max_batch_size": 1}}),
        *story_scrapes({("m", "1"): [BUSY]}, configs={"m": {"name": "m", "max_batch_size": 8}})[:1],
    ]
    reported_twice[-1] = replace(reported_twice[-1], at=START + 5, mono=START + 5)
    (change,) = happened(window_of(reported_twice))

    assert change.kind is Happened.CONFIGURED
