"""The service's part: verdicts follow each other over windows that overlap, with restarts between them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import MetaData, Table, create_engine, insert

from diagnostics.cli.main import main
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.server import WebServer
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.service import Service
from diagnostics.service.slo_keeper import SloKeeper
from diagnostics.settings.load import load
from diagnostics.slo.slo import Promise, Slo, Triton
from diagnostics.store import slo_events
from diagnostics.store.database import migrate
from tests.builders import SERVER
from tests.slo.kept import AVAILABLE, hours_keep_everything
from tests.store.lived import NAME, deployment, live, opened, rounds

ROUNDS = 16
LATE = Slo(name="slow-latency", objective=0.99, sli=Triton(promise=Promise.LATENCY, model="slow", seconds=0.25))
# Of `slow`, in a second: 38 answered, 5 failed.
GOOD, FAILED = 38.0, 5.0


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SloKeeper, float]:
    directory = tmp_path_factory.mktemp("history")
    history = opened(directory)
    history.start()
    keeper = SloKeeper([AVAILABLE, LATE], history)
    begin = time.time() - ROUNDS * 15.0
    for verdict in live(history, deployment(OwnMetrics()), rounds(ROUNDS, begin=begin)):
        keeper.consume(verdict)
    keeper.stop()
    history.stop()
    return directory, keeper, begin


def page(keeper: SloKeeper) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(keeper)
    return registry


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(name, labels)
    assert found is not None, generate_latest(registry).decode()
    return found


LABELS = {"slo": "slow-answers", "deployment": NAME, "server": SERVER, "model": "slow"}


def test_overlapping_windows_count_each_request_once(kept: tuple[Path, SloKeeper, float]) -> None:
    registry = page(kept[1])
    # From the first read that a verdict saw until the one before the last: the newest waits for its traces.
    seconds = (ROUNDS - 2) * 15.0
    assert value(registry, "diag_slo_events_total", **LABELS) == pytest.approx((GOOD + FAILED) * seconds)
    assert value(registry, "diag_slo_bad_events_total", **LABELS) == pytest.approx(FAILED * seconds)


def test_what_took_the_failures_is_exported(kept: tuple[Path, SloKeeper, float]) -> None:
    took = {"slo": "slow-answers", "check": "request-failures", "server": SERVER, "model": "slow"}
    found = value(page(kept[1]), "diag_slo_bad_events_attributed_total", **took)
    assert 0 < found <= FAILED * ROUNDS * 15


def test_averages_give_bounds_and_claim_no_more_than_is_certain(kept: tuple[Path, SloKeeper, float]) -> None:
    labels = {**LABELS, "slo": "slow-latency"}
    names = ("bad_events_low_total", "bad_events_total", "bad_events_high_total", "events_total")
    low, bad, high, total = (value(page(kept[1]), f"diag_slo_{name}", **labels) for name in names)
    assert low == bad == 0
    assert high == pytest.approx(total * 0.1945 / 0.25, rel=0.02)  # the mean over the limit


def test_burn_rates_and_budgets_are_exported(kept: tuple[Path, SloKeeper, float]) -> None:
    registry = page(kept[1])
    share = FAILED / (GOOD + FAILED)
    burn = value(registry, "diag_slo_burn_rate", slo="slow-answers", window="5m")
    assert burn == pytest.approx(share / 0.01, rel=0.01)
    assert value(registry, "diag_slo_objective_ratio", slo="slow-answers") == 0.99
    assert value(registry, "diag_slo_budget_remaining_ratio", slo="slow-answers") < 1


def test_a_restart_goes_on_with_what_was_counted(kept: tuple[Path, SloKeeper, float]) -> None:
    directory, before, _ = kept
    history = opened(directory)
    again = SloKeeper([AVAILABLE], history)
    (old, *_), (new,) = before.reports(), again.reports()
    assert (new.tally.total, new.tally.bad) == (pytest.approx(old.tally.total), pytest.approx(old.tally.bad))
    assert [one.cause for one in new.spent] == [one.cause for one in old.spent]
    history._database.close()


def test_an_objective_that_counts_something_else_begins_anew(kept: tuple[Path, SloKeeper, float]) -> None:
    history = opened(kept[0])
    other = Slo(name="slow-answers", objective=0.99, sli=Triton(promise=Promise.AVAILABILITY, model="fast"))
    same = Slo(name="slow-answers", objective=0.5, sli=AVAILABLE.sli)
    assert history.slo_events(other, 0) == {}
    assert set(history.slo_events(same, 0)) == {NAME}
    history._database.close()


def test_minutes_in_the_database_become_hours_without_loss(tmp_path: Path) -> None:
    history = opened(tmp_path)
    hours_keep_everything(history)
    history._database.close()


def test_minutes_of_the_schema_before_spans_are_read_as_whole_ones(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'old.sqlite'}")
    row = {"slo": "slow-answers", "definition": AVAILABLE.definition, "deployment": NAME, "cause": "", "at": 120}
    text = dict.fromkeys(("check", "server", "model", "source"), "")
    with engine.begin() as connection:
        migrate(connection, "here", "0003")
        old = Table("slo_events", MetaData(), autoload_with=connection)
        connection.execute(insert(old), {**row, **text, "seconds": 60, "total": 9, "bad": 1, "low": 1, "high": 1})
        bins = slo_events.read_bins(connection, AVAILABLE, 0)[NAME]
    engine.dispose()
    assert (bins.known(0, 200), bins.over(0, 200).tally.total) == ([(120, 180)], 9)


def test_the_command_reads_the_same_from_the_service_and_from_its_history(
    kept: tuple[Path, SloKeeper, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "slos.yaml"
    file.write_text("slo: [{name: slow-answers, objective: 0.99, model: slow, availability: true}]\n")
    settings = load(None, {}, {"web.listen_address": "127.0.0.1:0"}).settings
    service = Service(settings, metrics=OwnMetrics())
    history = opened(kept[0])
    context = WebContext(
        service=service, history=history.reader, settings=settings, metrics=service.metrics, objectives=kept[1]
    )
    server = WebServer(context)
    server.start()
    try:
        assert main(["slo", "--slo", str(file), "--url", f"http://127.0.0.1:{server.port}", "--fail-on", "spent"]) == 0
        requested = capsys.readouterr().out
    finally:
        server.stop()
        history._database.close()
    assert main(["slo", str(kept[0]), "--slo", str(file)]) == 0
    read = capsys.readouterr().out
    for text in (requested, read):
        assert "slow-answers: 99 % of requests to slow answered, over 30 d" in text
        assert "went to request-failures of slow on triton-0" in text
        assert "incident " in text
        assert "Z, last seen 20" in " ".join(text.split())
    assert main(["slo", str(kept[0]), "--slo", str(file), "--deployment", "prod"]) == 2
    assert "there is no deployment 'prod'; there is chat" in capsys.readouterr().err
    file.write_text("slo: [{name: gone, objective: 0.99, model: gone, availability: true}]\n")
    assert main(["slo", str(kept[0]), "--slo", str(file)]) == 3
    assert "no events: no server has a model 'gone'; there is fast, slow" in capsys.readouterr().out
