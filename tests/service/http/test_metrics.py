from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from diagnostics.service.http import metrics
from diagnostics.service.http.metrics import Exposition
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.state import Evaluation, LiveState, TargetState
from diagnostics.window.window import window_of
from exporters.sinks.exposition import Row, families, rows_of
from tests.builders import SERVER, Stage, SyntheticTriton, explained
from tests.gen.conftest import promtool
from tests.service.http.door import Door, door, judged, show
from tests.service.parts import count, until
from tests.store.lived import NAME

__all__ = ["promtool"]
OPENMETRICS = "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"


@pytest.fixture(scope="module")
def verdict() -> Evaluation:
    return judged()[-1]


@pytest.fixture(scope="module")
def opened(verdict: Evaluation) -> Iterator[Door]:
    with door() as one:
        show(one.service, [verdict])
        until(lambda: FOUND in one.ask("/metrics").data.decode())
        yield one


FOUND = 'diag_finding{check="request-failures"'


def test_the_page_is_accepted_by_promtool(opened: Door, promtool) -> None:
    done: subprocess.CompletedProcess[str] = promtool("check", "metrics", text=opened.ask("/metrics").data.decode())
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_scraper_gets_the_format_that_it_asks_for(opened: Door) -> None:
    text, open_text = opened.ask("/metrics"), opened.ask("/metrics", Accept=OPENMETRICS)
    assert text.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert open_text.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    names = {family.name for family in openmetrics(open_text.data.decode())}
    assert names >= {"diag_target_up", "diag_finding", "diag_verdict", "diag_build", "diag_rounds", "diag_http_refused"}
    assert names >= {"python_info", "process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds"}
    assert {family.name for family in plain(text.data.decode())} >= {"diag_finding", "diag_build_info"}
    assert opened.ask("/metrics", "HEAD").data == b""


def test_the_page_is_made_ahead_and_not_for_each_scrape(verdict: Evaluation) -> None:
    made: list[float] = []

    def clock() -> float:
        made.append(verdict.at)
        return verdict.at

    exposition = Exposition(OwnMetrics(), window=300.0, clock=clock)
    exposition.update(LiveState(version=1, evaluations={NAME: verdict}))
    pages = {exposition.page("text/plain") for _ in range(3)}
    assert len(pages) == len(made) == 1


def test_what_a_verdict_says_is_read_once_however_often_the_board_changes(
    verdict: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = metrics.rows_of
    monkeypatch.setattr(metrics, "rows_of", lambda *given: read.append("verdict") or real(*given))
    exposition = Exposition(OwnMetrics(), window=300.0)
    for version in range(1, 4):
        exposition.update(LiveState(version=version, evaluations={NAME: verdict}))
    assert read == ["verdict"]
    exposition.update(LiveState(version=4, evaluations={NAME: replace(verdict, lag=0.5)}))
    assert len(read) == 2


@pytest.mark.parametrize(("media_type", "parse"), [("text/plain", plain), (metrics.OPENMETRICS, openmetrics)])
def test_the_text_of_verdicts_is_put_together_as_if_it_were_made_at_once(
    verdict: Evaluation, media_type: str, parse: Callable[[str], Iterable[Metric]]
) -> None:
    scrapes = SyntheticTriton(models=(Stage("m", rate=10.0, execution=0.01),)).scrapes()
    explanation = explained(window_of([replace(one, server="triton-1") for one in scrapes]))
    other = replace(verdict, deployment="other", explanation=explanation)
    exposition = Exposition(OwnMetrics(), window=300.0, clock=lambda: verdict.at)
    exposition.update(LiveState(version=1, evaluations={NAME: verdict, "other": other}))
    rows = [*rows_of(NAME, verdict.explanation), *rows_of("other", other.explanation)]
    found = {one.name: one for one in parse(exposition.page(media_type).decode())}
    for family in families(rows):
        assert found[family.name].type == family.type
        assert found[family.name].documentation == family.documentation
        assert found[family.name].samples == family.samples


def test_a_server_of_two_verdicts_is_shown_once(verdict: Evaluation) -> None:
    exposition = Exposition(OwnMetrics(), window=300.0, clock=lambda: verdict.at)
    exposition.update(LiveState(version=1, evaluations={NAME: verdict, "new": replace(verdict, deployment="new")}))
    page = exposition.page("text/plain").decode()
    lines = [line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")]
    assert 'diag_verdict{deployment="new"' in page
    assert len(lines) == len(set(lines))


def test_only_a_new_verdict_is_written_again(verdict: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    real, this = metrics._blocks, threading.get_ident()

    def counted(rows: Sequence[Row], kind: str) -> metrics.Blocks:
        if threading.get_ident() == this:  # services of other tests may still make their pages
            written.append(bool(rows))
        return real(rows, kind)

    monkeypatch.setattr(metrics, "_blocks", counted)
    exposition = Exposition(OwnMetrics(), window=300.0, clock=lambda: verdict.at)
    exposition.page("text/plain")
    for version, one in enumerate((verdict, verdict, replace(verdict, lag=0.5))):
        exposition.update(LiveState(version=version, evaluations={NAME: one}))
        exposition._due = 0.0
        exposition.render()
    assert sum(written) == 2


def test_a_page_is_of_one_state_also_when_a_new_one_comes_while_it_is_made(verdict: Evaluation) -> None:
    def clock() -> float:
        exposition.update(LiveState(version=2, evaluations={NAME: verdict}))
        return verdict.at

    exposition = Exposition(OwnMetrics(), window=300.0, clock=clock)
    exposition.update(LiveState(version=1))
    assert "diag_verdict{" not in exposition.page("text/plain").decode()
    exposition._due = 0.0
    exposition.render()
    assert "diag_verdict{" in exposition.page("text/plain").decode()


def test_a_verdict_that_was_not_renewed_says_nothing_of_now(verdict: Evaluation) -> None:
    now = [verdict.at + 500.0]
    exposition = Exposition(OwnMetrics(), window=300.0, clock=lambda: now[0])
    exposition.update(LiveState(version=1, evaluations={NAME: verdict}))
    assert b"diag_finding{" in exposition.page("text/plain")
    now[0] += 200.0
    exposition.render()
    assert b"diag_finding{" not in exposition.page("text/plain")


def test_a_verdict_that_cannot_be_shown_takes_no_other_away(
    verdict: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = OwnMetrics()
    exposition = Exposition(own, window=300.0)
    broken = replace(verdict, deployment="broken", explanation=None)  # type: ignore[arg-type]
    exposition.update(LiveState(version=1, evaluations={"broken": broken, NAME: verdict}))
    assert f'deployment="{NAME}"'.encode() in exposition.page("text/plain")
    assert count(own, "diag_errors_total", part="exposition") == 1


def test_secrets_are_on_no_page(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("the-secret-token")
    with door({"web.bearer_token_file": str(tmp_path / "token")}) as closed:
        reported = {"Authorization": "Bearer the-secret-token"}
        for path in ("/metrics", "/api/v1/state", "/api/v1/targets", "/api/v1/openapi.json"):
            answer = closed.ask(path, **reported)
            assert answer.status == 200
            assert b"the-secret-token" not in answer.data


def test_a_target_that_is_down_is_reported(opened: Door) -> None:
    assert f'diag_target_up{{deployment="{NAME}",server="{SERVER}"}} 1.0' in opened.ask("/metrics").data.decode()


def away(verdict: Evaluation) -> LiveState:
    """Return a state in which nobody answers since the verdict."""
    (server,) = verdict.explanation.window.sources
    target = TargetState(
        server=server, url=server, deployment=NAME, up=False, interval=15.0, last_success=verdict.at, failures=3
    )
    return LiveState(started=verdict.at, targets={server: target}, evaluations={NAME: verdict})


@pytest.mark.parametrize(("seconds", "stale"), [(30.0, False), (75.0, True)])
def test_a_verdict_on_servers_that_answer_no_more_is_not_shown_as_current(
    verdict: Evaluation, seconds: float, stale: bool
) -> None:
    page = Exposition(OwnMetrics(), 300.0, clock=lambda: verdict.at + seconds)
    page.update(away(verdict))
    text = page.page("text/plain").decode()
    assert (FOUND in text) is not stale
    assert ("diag_model_queue_seconds_mean{" in text) is not stale
    assert (f'diag_verdict{{deployment="{NAME}",verdict="insufficient-data"}} 1.0' in text) is stale
    read = next(line for line in text.splitlines() if line.startswith("diag_target_last_success_timestamp_seconds{"))
    assert float(read.rpartition(" ")[2]) == pytest.approx(verdict.at)
