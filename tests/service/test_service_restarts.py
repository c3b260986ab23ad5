"""What lasts from run to run: a service over a real history, whose settings change while it is down or by a reload."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from diagnostics.diagnosis.incident import Ending, Incident, IncidentTransition
from diagnostics.service.notifications.notifier import Notifier
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.service import Service
from diagnostics.service.state import Evaluation
from diagnostics.settings.tree import DeploymentSettings, ServerSettings, Settings
from diagnostics.store.digest import Rank, Write
from diagnostics.store.history import History
from diagnostics.store.outbox import FileOutbox
from diagnostics.store.statements import put_incident
from tests.service.notifications.hook import Hook, listening
from tests.service.parts import until
from tests.sinks.incidents import incident
from tests.store.lived import opened

ONE = replace(incident(), deployment="chat", onset=time.time() - 90, opened=time.time() - 60, seen=time.time() - 60)


class VerdictListener:
    def __init__(self) -> None:
        self.taken: list[Evaluation] = []

    def consume(self, evaluation: Evaluation) -> None:
        self.taken.append(evaluation)

    @property
    def ended(self) -> list[tuple[IncidentTransition, Incident]]:
        return [(change.kind, change.incident) for one in self.taken for change in one.changes]


def settings(*names: str) -> Settings:
    """Return the settings of deployments whose servers nobody answers for."""
    urls = {name: f"http://127.0.0.1:{port}" for port, name in enumerate(names, 1)}
    return Settings(
        server=tuple(ServerSettings(url=url) for url in urls.values()),
        deployment=tuple(DeploymentSettings(name=name, servers=(url,)) for name, url in urls.items()),
    )


def left_open(directory: Path, *incidents: Incident) -> None:
    """Let an earlier run have left these."""
    history = opened(directory)
    history.start()
    for one in incidents:
        history._writer.enqueue(Write(Rank.INCIDENT, put_incident(one)))
    history.stop()


@contextlib.contextmanager
def running(
    directory: Path, watched: Settings, reported: Sequence[VerdictListener | Notifier]
) -> Iterator[tuple[Service, History]]:
    history = opened(directory)
    history.start()
    service = Service(watched, memory=history, consumers=reported)
    service.start()
    try:
        yield service, history
    finally:
        service.stop()
        history.stop()


def test_incidents_of_a_deployment_that_was_removed_while_the_service_was_down_end_with_the_reason(
    tmp_path: Path,
) -> None:
    left_open(tmp_path, ONE, replace(ONE, id="stays", deployment="other"))
    reported = VerdictListener()
    with running(tmp_path, settings("other"), [reported]) as (_, history):
        until(lambda: reported.ended)
        until(lambda: [one.id for one in history.reader.incidents(state="open")] == ["stays"])
    ((kind, over),) = reported.ended
    assert (kind, over.id, over.ending) == (IncidentTransition.CLOSED, ONE.id, Ending.UNWATCHED)
    assert over.closed is not None
    assert over.closed > ONE.seen
    reader = opened(tmp_path).reader
    assert reader.incidents(state="closed") == [over]
    assert reader.verdicts("chat", 0.0, time.time()) == [], "nothing was judged"


def test_one_that_is_removed_before_its_first_verdict_tells_the_end_of_its_incidents(tmp_path: Path) -> None:
    left_open(tmp_path, ONE)
    reported = VerdictListener()
    with running(tmp_path, settings("chat"), [reported]) as (service, _):
        assert [one.id for one in service.deployments["chat"].book.open] == [ONE.id]
        service.reload(settings("other"))
        until(lambda: reported.ended)
        service.reload(settings("chat"))
        assert service.deployments["chat"].book.open == (), "what has ended does not begin again"
    assert [(kind, one.ending) for kind, one in reported.ended] == [(IncidentTransition.CLOSED, Ending.UNWATCHED)]
    assert opened(tmp_path).open_incidents() == []


def test_one_without_incidents_is_removed_without_a_word(tmp_path: Path) -> None:
    reported = VerdictListener()
    with running(tmp_path, settings("chat"), [reported]) as (service, _):
        service.reload(settings("other"))
    assert reported.taken == []


def test_receivers_are_reported_of_the_end_of_what_is_watched_no_longer(tmp_path: Path) -> None:
    left_open(tmp_path, ONE)
    with listening() as hook:
        receivers = {"alertmanager": {"urls": [f"{hook.url}/am"]}, "webhook": [{"url": f"{hook.url}/hook"}]}
        telling = Notifier(Settings.model_validate(receivers), OwnMetrics(), FileOutbox(tmp_path))
        telling.resume([ONE], watched=["other"])
        telling.start()
        with running(tmp_path, settings("other"), [telling]):
            until(lambda: {"ended", "closed"} <= {what for what, _ in reported(hook)})
        telling.stop()
    assert {what for what, _ in reported(hook)} == {"ended", "closed"}, "nothing begins that ends at once"
    reasons = {what: reason for what, reason in reported(hook) if reason}
    assert reasons == {"ended": Ending.UNWATCHED.reported, "closed": Ending.UNWATCHED.value}


def reported(hook: Hook) -> Iterator[tuple[str, str | None]]:
    """Yield what Alertmanager and the webhook were told, with the reason."""
    for _, body in list(hook.taken):
        stated = json.loads(body)
        if isinstance(stated, dict):
            yield stated["change"], stated["incident"]["ending"]
            continue
        for alert in stated:
            over = alert["endsAt"] < datetime.now(UTC).isoformat()
            yield "ended" if over else "fires", alert["annotations"].get("ended_because")
