from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diagnostics.errors import CollectError
from diagnostics.service import running
from diagnostics.service.daemon import Daemon
from diagnostics.service.service import Service
from diagnostics.settings.load import Loaded
from diagnostics.settings.tree import CollectSettings, ServerSettings, Settings
from diagnostics.store.claim import claimed


def test_what_takes_a_restart_is_reported_and_stays_until_then(caplog: pytest.LogCaptureFixture) -> None:
    servers = tuple(ServerSettings(url=f"http://{name}:8000") for name in "ab")
    begun = Settings(server=servers[:1])
    wanted = [Settings(server=servers, collect=CollectSettings(interval=1.0)), begun]
    daemon = Daemon(Service(begun), (), lambda: Loaded(settings=wanted.pop(0), origins={}))

    daemon._reload()
    assert "collect has changed, which takes a restart" in caplog.text
    assert daemon._service.settings == begun.model_copy(update={"server": servers})
    caplog.clear()
    daemon._reload()
    assert daemon._service.settings == begun
    assert "restart" not in caplog.text


def test_a_second_service_touches_nothing_in_the_directory_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("log_to_stderr", "share_arenas", "open_more_files"):
        monkeypatch.setattr(running, name, lambda *_: None)
    monkeypatch.setattr(running.gc, "set_threshold", lambda *_: None)
    environment = {"DIAG_HISTORY__DIRECTORY": str(tmp_path)}
    with claimed(tmp_path), pytest.raises(CollectError, match="another diag serve keeps its history here"):
        running.run(None, environment, {}, ["http://a:8000"])
    assert [one.name for one in tmp_path.rglob("*") if one.is_file()] == ["lock"]


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"alertmanager": {"urls": ["http://alertmanager:9093"]}}, "http://127.0.0.1:9177"),
        ({"alertmanager": {"urls": ["http://alertmanager:9093"]}, "web": {"external_url": "https://diag.org"}}, ""),
        ({"alertmanager": {"urls": ["http://alertmanager:9093"]}, "web": {"listen_address": "0.0.0.0:9177"}}, ""),
        ({}, ""),
    ],
)
def test_links_that_receivers_cannot_open_are_reported_at_the_start(settings: dict[str, Any], shown: str) -> None:
    line = running.links_line(Settings.model_validate({"server": [{"url": "http://triton:8000"}], **settings}))
    assert line == (
        f"links in alerts and messages begin with {shown}, which only this machine opens; set web.external_url"
        if shown
        else ""
    )


@pytest.mark.parametrize(("directory", "origin"), [(None, "default"), ("kept", "DIAG_HISTORY__DIRECTORY")])
def test_the_log_says_at_the_start_where_history_is_kept_and_how_to_change_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    directory: str | None,
    origin: str,
) -> None:
    for name in ("log_to_stderr", "share_arenas", "open_more_files"):
        monkeypatch.setattr(running, name, lambda *_: None)
    monkeypatch.setattr(running.gc, "set_threshold", lambda *_: None)
    monkeypatch.setattr(running, "_assembled", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    monkeypatch.chdir(tmp_path)
    environment = {"DIAG_HISTORY__DIRECTORY": directory} if directory else {}
    with caplog.at_level("INFO"), pytest.raises(KeyboardInterrupt):
        running.run(None, environment, {}, ["http://a:8000"])
    (line,) = [one for one in caplog.messages if one.startswith("history is kept in")]
    assert line.startswith(f"history is kept in {tmp_path / (directory or 'data')} ({origin});")
    assert "recorded bodies for 7 d" in line
    assert line.endswith("set history.directory or DIAG_HISTORY__DIRECTORY to keep it elsewhere")
