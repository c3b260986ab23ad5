from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from diagnostics.checks.check import Severity
from diagnostics.service.attention import Attention
from diagnostics.settings.tree import MaintenanceSettings
from diagnostics.store.journal import JournalAction, JournalEntry
from tests.sinks.incidents import BEGIN, closed, incident, opened, updated

ONE = incident()


def entry(action: JournalAction, **named: object) -> JournalEntry:
    known = {"at": BEGIN, "who": "alice", "origin": "::1", "deployment": "chat", "start": BEGIN, "text": "why"}
    return JournalEntry(action=action, **{**known, **named})  # type: ignore[arg-type]


def second(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_receivers_hear_of_an_acknowledged_incident_when_it_gets_worse_and_when_it_ends() -> None:
    attention = Attention()
    assert attention.audible(updated(ONE)).changes
    attention.record(entry(JournalAction.ACKNOWLEDGE, incident=ONE.id))
    assert not attention.audible(updated(ONE)).changes
    assert not attention.audible(updated(replace(ONE, severity=Severity.INFO))).changes
    assert attention.audible(updated(replace(ONE, severity=Severity.CRITICAL))).changes
    assert attention.audible(closed(ONE)).changes
    assert attention.audible(opened(replace(ONE, id="other"))).changes


def test_nobody_hears_of_incidents_under_maintenance_but_of_their_end() -> None:
    attention = Attention()
    attention.record(entry(JournalAction.MAINTENANCE, end=BEGIN + 60))
    assert not attention.audible(opened(ONE)).changes
    assert attention.audible(closed(ONE)).changes
    assert attention.audible(replace(opened(ONE), at=BEGIN + 60)).changes
    assert attention.audible(replace(opened(ONE), deployment="other")).changes


@pytest.mark.parametrize(
    ("weekly", "at", "expected"),
    [
        ("Sun 02:00-04:00", "2026-11-29T02:00:00", True),
        ("Sun 02:00-04:00", "2026-11-29T03:59:59", True),
        ("Sun 02:00-04:00", "2026-11-29T04:00:00", False),
        ("Sun 02:00-04:00", "2026-11-30T03:00:00", False),
        ("Sun 23:00-01:00", "2026-11-30T00:30:00", True),
        ("Sun 23:00-01:00", "2026-11-29T00:30:00", False),
        ("Sat 23:00-01:00", "2026-11-29T00:30:00", True),
    ],
)
def test_a_weekly_maintenance_lasts_from_its_first_minute_to_its_last_in_utc(
    weekly: str, at: str, expected: bool
) -> None:
    planned = MaintenanceSettings(weekly=weekly)
    assert Attention([planned]).maintained("chat", second(at)) is expected


def test_a_maintenance_of_the_settings_has_a_beginning_and_an_end() -> None:
    planned = MaintenanceSettings.model_validate(
        {"deployment": "chat", "start": "2026-12-01T02:00:00Z", "end": "2026-12-01T04:00:00Z"}
    )
    attention = Attention([planned])
    assert attention.maintained("chat", second("2026-12-01T03:00:00"))
    assert not attention.maintained("chat", second("2026-12-01T04:00:00"))
    assert not attention.maintained("other", second("2026-12-01T03:00:00"))


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"weekly": "Sunday 2-4"},
        {"weekly": "Sun 25:00-26:00"},
        {"weekly": "Sun 02:00-04:00", "end": "2026-12-01T04:00:00Z"},
        {"start": "2026-12-01T04:00:00Z", "end": "2026-12-01T02:00:00Z"},
    ],
)
def test_a_maintenance_that_means_no_time_is_refused(tree: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"weekly|start"):
        MaintenanceSettings.model_validate(tree)


def test_timelines_are_marked_with_deploys_and_work_that_overlap_them() -> None:
    planned = [
        MaintenanceSettings(weekly="Sun 02:00-04:00"),
        MaintenanceSettings.model_validate(
            {"deployment": "other", "start": "2026-11-29T00:00:00Z", "end": "2026-11-30T00:00:00Z"}
        ),
    ]
    start, end = second("2026-11-29T03:00:00"), second("2026-11-29T12:00:00")
    attention = Attention(planned)
    at = {"inside": start + 60, "before": start - 60, "after": end + 60}
    for name, when in at.items():
        attention.record(entry(JournalAction.EVENT, kind="deploy", text=name, start=when))
    attention.record(entry(JournalAction.EVENT, kind="deploy", text="elsewhere", start=start + 1, deployment="other"))
    attention.record(entry(JournalAction.MAINTENANCE, text="driver", start=start - 60, end=start + 600))
    attention.record(entry(JournalAction.ACKNOWLEDGE, start=start + 5, incident="x"))
    assert attention.marks("chat", start, end) == [
        ("maintenance", "planned", second("2026-11-29T02:00:00"), second("2026-11-29T04:00:00")),
        ("maintenance", "driver", start - 60, start + 600),
        ("deploy", "inside", start + 60, None),
    ]


def test_weekly_work_is_marked_each_week_of_a_long_span() -> None:
    attention = Attention([MaintenanceSettings(weekly="Sat 23:00-01:00")])
    marks = attention.marks("chat", second("2026-11-01T00:30:00"), second("2026-11-29T00:30:00"))
    assert [one.start for one in marks] == [
        second(f"2026-{day}T23:00:00") for day in ("10-31", "11-07", "11-14", "11-21", "11-28")
    ]
    assert {one.end - one.start for one in marks if one.end is not None} == {7200.0}
