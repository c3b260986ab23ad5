"""Which epochs that one source shows to begin are denied by the other."""

from __future__ import annotations

import pytest

from diagnostics.window.lifecycle import changes
from diagnostics.window.window import METRICS, STATISTICS, ServerWindow, window_of
from diagnostics.wire.records import BodyKind
from tests.builders import SERVER, START, Alter, Counts, Rows, Stage, SyntheticTriton, only_between, restarted_at

KINDS = {METRICS: BodyKind.METRICS, STATISTICS: BodyKind.STATISTICS}
STEADY = (Stage("m", rate=5, execution=0.02), Stage("n", rate=5, execution=0.02))
BUSY = (Stage("m", rate=20, execution=0.02), Stage("n", rate=20, execution=0.02))
READS = 13
# As long as between two reads: what was counted before is no more than may have been counted since.
BEFORE = 5.0


def left_out_before(read: int) -> Alter:
    """Return an alteration: bodies before this read are without the model, and its counters go on."""
    return lambda number, rows: {key: row for key, row in rows.items() if key[0] != "m" or number >= read}


def idle_before(read: int) -> Alter:
    """Return an alteration: the model is listed at zero before this read, and counts from then on."""
    loaded = only_between("m", read, READS)

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        return {("m", "1"): Counts(), **loaded(number, rows)}

    return alter


def shown(
    late: str, alter: Alter, elsewhere: Alter, elsewhere_from: int = 0, models: tuple[Stage, ...] = STEADY
) -> ServerWindow:
    """Return a server whose bodies are altered in one source and in the other, which is read from some read on."""
    bodies = []
    for source, kind in KINDS.items():
        triton = SyntheticTriton(models=models, before=BEFORE, alter=alter if source == late else elsewhere)
        read = triton.without(*(other for other in KINDS.values() if other is not kind)).scrapes(READS)
        since = 0.0 if source == late else START + elsewhere_from * triton.interval
        bodies += [scrape for scrape in read if scrape.at >= since]
    return window_of(bodies).servers[SERVER]


@pytest.mark.parametrize("late", list(KINDS))
def test_what_the_other_source_counted_before_is_no_zero_to_begin_from(late: str) -> None:
    server = shown(late, left_out_before(1), lambda _, rows: rows)

    assert not server.tables[late]["m", "1"].resets
    assert len(server.tables[late]["m", "1"].steps) == READS - 1 - 1
    assert changes(server) == ()


@pytest.mark.parametrize("late", list(KINDS))
@pytest.mark.parametrize(
    "elsewhere",
    [only_between("m", 3, READS), only_between("m", 2, READS), idle_before(3), left_out_before(READS)],
    ids=["with it", "a read sooner", "idle", "never"],
)
def test_a_version_that_the_other_source_saw_begin_or_did_not_count_begins_from_zero(
    late: str, elsewhere: Alter
) -> None:
    assert len(shown(late, only_between("m", 3, READS), elsewhere).tables[late]["m", "1"].resets) == 1


@pytest.mark.parametrize("late", list(KINDS))
def test_a_source_that_was_not_read_before_tells_nothing_of_it(late: str) -> None:
    server = shown(late, only_between("m", 3, READS), lambda _, rows: rows, elsewhere_from=3, models=BUSY)

    assert len(server.tables[late]["m", "1"].resets) == 1


def another_servers_from(read: int) -> Alter:
    """Return an alteration: from this read on, a replica answers that has counted 0.3 as much."""
    return lambda number, rows: {key: _part(row) if number >= read else row for key, row in rows.items()}


def _part(row: Counts) -> Counts:
    return row - Counts(requests=0.7 * row.requests, items=0.7 * row.items, executions=0.7 * row.executions)


@pytest.mark.parametrize("fell", list(KINDS))
@pytest.mark.parametrize(("alter", "openings"), [(another_servers_from(8), 0), (restarted_at(8), 1)])
def test_more_than_the_other_source_counted_meanwhile_was_not_counted_from_zero(
    fell: str, alter: Alter, openings: int
) -> None:
    """In 5 s 100 requests are completed; 270 are less than the burst after a load may be."""
    server = shown(fell, alter, lambda _, rows: rows, models=BUSY)

    assert len(server.tables[fell]["m", "1"].resets) == openings


def answered_in_turn(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
    """Return what every second read gets from a replica that has counted 0.3 as much."""
    return {key: _part(row) if number % 2 else row for key, row in rows.items()}


@pytest.mark.parametrize("fell", list(KINDS))
def test_a_source_that_jumps_from_server_to_server_denies_a_load_in_the_other(fell: str) -> None:
    loaded = Stage("m", rate=20, execution=0.02)
    server = shown(fell, restarted_at(8), answered_in_turn, models=(loaded,))

    assert next(
        table for source, tables in server.tables.items() if source != fell for table in tables.values()
    ).unsteady
    assert not server.tables[fell]["m", "1"].resets
    assert changes(server) == ()
