"""A server that restarts again and again is told from several behind one address by what else tells of a restart."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from diagnostics.window.outages import RESTARTED, outages
from diagnostics.window.window import Window, window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, Counts, Rows, Stage, SyntheticTriton, explained, host_body
from tests.builders_traffic import indexed, logged

INTERVAL = 5.0
READS = 14
# The reads at which counters have begun anew; the read before each was in vain.
ANEW = (4, 8, 12)
STAGES = tuple(Stage(name, rate=20.0, execution=0.01) for name in ("a", "b"))


def begun_anew(number: int, rows: Rows) -> Rows:
    """Count since three seconds before the newest restart's first read."""
    last = max((read for read in ANEW if read <= number), default=None)
    if last is None:
        return rows
    seconds = INTERVAL * (number - last) + 3.0
    return {(stage.name, stage.version): stage.after(seconds) for stage in STAGES}


def another_server(number: int, rows: Rows) -> Rows:
    """Let some reads be answered by a server that has counted a tenth less."""
    less = 0.9 if number in ANEW else 1.0
    return {key: part(row, less) for key, row in rows.items()}


def part(row: Counts, share: float) -> Counts:
    names = ("requests", "items", "executions", "seconds", "queue", "infer")
    batches = {size: (count * share, seconds * share) for size, (count, seconds) in row.batches.items()}
    return replace(row, **{name: getattr(row, name) * share for name in names}, batches=batches)


def read(alter: object = begun_anew) -> list[Scrape]:
    made = SyntheticTriton(models=STAGES, alter=alter, interval=INTERVAL, before=1000.0, cpu_busy=None)  # type: ignore[arg-type]
    missed = {START + INTERVAL * (number - 1) for number in ANEW}
    return [scrape for scrape in made.scrapes(READS) if scrape.at not in missed]


def refused() -> list[Scrape]:
    return [
        Scrape(server=SERVER, kind=kind, at=at, mono=at, error="connection refused")
        for at in (START + INTERVAL * (number - 1) for number in ANEW)
        for kind in (BodyKind.METRICS, BodyKind.STATISTICS)
    ]


def loading() -> list[Scrape]:
    """Return the index of each round, with all models loading three seconds before each first read."""
    ready, not_yet = ((("a", "1", state, ""), ("b", "1", state, "")) for state in ("READY", "LOADING"))
    rounds = [indexed(INTERVAL * number, *ready, server=SERVER) for number in range(READS)]
    return [*rounds, *(indexed(INTERVAL * number - 3.0, *not_yet, server=SERVER) for number in ANEW)]


def hosts(*, pid: bool) -> list[Scrape]:
    """Return samples of the machine whose server's process is another one after each restart, or has used less."""
    found = []
    for number in range(READS):
        at = START + INTERVAL * number
        begun = max((other for other in ANEW if other <= number), default=-10)
        mine = 100 + begun if pid else 1
        used = 0.5 * INTERVAL * (number - begun)
        process = {"pid": mine, "comm": "tritonserver", "cpu_seconds": used}
        body = {**host_body(at, 0.2), "server_pid": mine, "server_processes": [process]}
        found.append(host_scrape(at, body))
    return found


def host_scrape(at: float, body: dict[str, object]) -> Scrape:
    return Scrape(server=SERVER, kind=BodyKind.HOST, at=at, mono=at, body=json.dumps(body).encode())


def logged_loads() -> list[Scrape]:
    times = [datetime.fromtimestamp(START + INTERVAL * number - 2.0, UTC) for number in ANEW]
    return [
        logged(*(f'I{at:%m%d %H:%M:%S.%f} 1 model_lifecycle.cc:472] "loading: {m}:1"' for at in times for m in "ab"))
    ]


WITNESSES = {
    "reads that nobody answered": refused(),
    "models that were all loading": loading(),
    "another process": hosts(pid=True),
    "a process that has used less": hosts(pid=False),
    "a log of loads": logged_loads(),
}


def of_several(window: Window) -> set[bool]:
    return {table.unsteady for source in window.servers[SERVER].tables.values() for table in source.values()}


@pytest.mark.parametrize("witness", WITNESSES)
def test_a_server_whose_restarts_something_else_tells_is_one(witness: str) -> None:
    window = window_of([*read(), *WITNESSES[witness]])
    assert of_several(window) == {False}
    reported = [one for one in outages(window.servers[SERVER], window.end) if one.state == RESTARTED]
    assert len(reported) == len(ANEW)


def test_counters_that_begin_anew_without_a_witness_may_be_several_servers() -> None:
    assert of_several(window_of(read())) == {True}


@pytest.mark.parametrize("witness", WITNESSES)
def test_counters_of_other_servers_are_no_restart_whatever_else_is_reported(witness: str) -> None:
    assert of_several(window_of([*read(another_server), *WITNESSES[witness]])) == {True}


def test_two_restarts_beside_one_that_is_reported_need_no_witness() -> None:
    first = [scrape for scrape in refused() if scrape.at < START + INTERVAL * ANEW[0]]
    often = [*read(), *first]
    assert of_several(window_of(often)) == {False}


def test_restarts_that_clients_felt_are_the_outage_that_they_were() -> None:
    stated = explained(window_of([*read(), *refused()]))
    assert [one.check for one in stated.actionable] == ["model-unavailable"]
