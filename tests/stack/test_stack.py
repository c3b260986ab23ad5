"""A fault from the first moved counter to the resolved alert, through everything that a user runs.

`make stack-test` runs this alone. Windows are of seconds instead of minutes; nothing else differs from production.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from dashboards.__main__ import BOARDS
from tests.service.notifications.alertmanagers import key_of
from tests.soak import running
from tests.stack.stack import Stack, explained_by, running_stack

pytestmark = [pytest.mark.live, pytest.mark.alone]
# What is waited for takes seconds; looking all the time would take the processors from what is measured.
until = partial(running.until, pause=0.2)
CAUSE, MODEL = "single-instance-serialization", "safety"
SYMPTOM = "TritonModelQueueDominates"
# The service is scraped too, or only Triton's pages are.
BOTH, PAGES = '{job=~"triton|diag"}', '{job="triton"}'
TICKET = "TritonDiagSingleInstanceSerialization"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stack")) as made:
        yield made


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    """What reads the server while the test waits for alerts."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def alert_of(stack: Stack, sender: str) -> dict[str, Any] | None:
    """Return the alert on the cause that was sent by the service ("diag") or by Prometheus (""), while it lasts."""
    found = (one for one in stack.alertmanager.held() if key_of(one["labels"]) == (CAUSE, MODEL, sender))
    return next(found, None)


def first_cause(*arguments: str) -> tuple[object, ...]:
    """Return check, server, model and ensemble of the first finding of `diag explain`.

    A window in which this machine had no processor left, or a page came late, is rightly left open: the next one is
    looked at, for a minute.
    """
    for _ in range(6):
        stated = explained_by(arguments)
        if stated["verdict"] != "no-clear-cause":
            break
        time.sleep(5.0)
    assert stated["verdict"] == "degraded", stated["verdict"]
    (first, *_) = stated["findings"]
    subject = first["subject"]
    return first["check"], subject["server"], subject["model"], subject["ensemble"]


def has_symptom(stack: Stack) -> bool:
    """Return whether the symptom's alert fires of the model of the real server; the recorded ones may have it too."""
    firing = stack.prometheus.firing().get(SYMPTOM, [])
    return any((one["job"], one["model"]) == ("triton", MODEL) for one in firing)


def test_a_fault_moves_rules_fires_is_explained_and_resolves_after_its_patch(
    stack: Stack, beside: ThreadPoolExecutor
) -> None:
    prometheus = stack.prometheus

    # The recording rule moves.
    recorded = f'instance_model_version:triton_queue_seconds:mean5m{{job="triton",model="{MODEL}"}}'
    until(lambda: (prometheus.value(recorded) or 0.0) > 0.02, 40, "the recorded queue")

    # Alerts fire: the symptom without any service, the cause by the service's finding.
    until(lambda: has_symptom(stack), 40, "the symptom")
    watched = beside.submit(first_cause, stack.triton.http_url, "--window", "8s")
    until(lambda: [one["model"] for one in prometheus.firing().get(TICKET, [])] == [MODEL], 60, "the cause's alert")

    # Alertmanager has it, with the cause and the patch.
    until(lambda: alert_of(stack, "diag"), 20, "the service's own alert")
    until(lambda: alert_of(stack, ""), 20, "Prometheus' alert")
    annotations = (alert_of(stack, "diag") or {})["annotations"]
    assert f"+++ b/{MODEL}/config.pbtxt" in annotations["patch"]
    assert MODEL in annotations["summary"]

    # Whoever watches this load names the same cause, by the same programs' pages or by themselves.
    direct = watched.result(120)
    assert direct[0] == CAUSE
    for store in (prometheus.url, stack.victoria_metrics):
        assert first_cause(f"prometheus+{store}?selector={BOTH}", "--since", "10s") == direct
    repository = ("--repository", str(stack.triton.repository))
    check, _, model, _ = first_cause(f"prometheus+{prometheus.url}?selector={PAGES}", "--since", "10s", *repository)
    assert (check, model) == (CAUSE, MODEL), "without a service that is scraped, files do"

    # The dashboards show it.
    until(lambda: not empty_panels(stack), 30, "data in every panel")
    shares = prometheus.query(f'diag_finding_share_of_latency_ratio{{check="{CAUSE}",model="{MODEL}"}}')
    assert float(shares[0]["value"][1]) > 0.15

    # The patch heals it, and everything resolves.
    stack.apply(annotations["patch"])
    until(lambda: (prometheus.value(recorded) or 0.0) < 0.02, 60, "the recorded queue's fall")
    until(lambda: TICKET not in prometheus.firing(), 60, "the end of the cause's alert")
    until(lambda: alert_of(stack, "diag") is None and alert_of(stack, "") is None, 60, "the end in Alertmanager")
    pager = stack.alertmanager.pager
    assert (CAUSE, MODEL, "diag") in pager.reported("firing")
    until(lambda: (CAUSE, MODEL, "diag") in pager.reported("resolved"), 20, "the notification of the end")
    until(lambda: not has_symptom(stack), 20, "the end of the symptom")


def empty_panels(stack: Stack) -> set[str]:
    """Return the panels, and the query, that have no data although everything runs."""
    return {
        f"{board.uid}: {panel.title}: {query.expr}"
        for board in BOARDS
        for panel in board.panels()
        for query in panel.queries
        if not stack.prometheus.query(as_grafana_asks(query.expr))
    }


def as_grafana_asks(expr: str) -> str:
    """Return the query with the variables' values for "All"."""
    for variable in ("$job", "$instance", "$model", "$slo"):
        expr = expr.replace(variable, ".+")
    return expr.replace("$__rate_interval", "10s").replace("$__range", "60s")
