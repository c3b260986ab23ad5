from __future__ import annotations

import pytest

from diagnostics.service.daemon import Daemon
from diagnostics.service.service import Service
from diagnostics.settings.load import Loaded
from diagnostics.settings.tree import CollectSettings, ServerSettings, Settings


def test_what_takes_a_restart_is_told_and_stays_until_then(caplog: pytest.LogCaptureFixture) -> None:
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
