"""Names that no client of ours asks for: each is refused for what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.service.http.door import door
from tests.service.http.test_agents import call
from tests.store.lived import opened
from tests.store.postgres import PASSWORD, postgres

NAMED = (
    "/api/v1/incidents/{}",
    "/api/v1/incidents/{}/picture.png",
    "/api/v1/incidents?deployment={}",
    "/api/v1/verdicts?deployment={}",
    "/api/v1/signals?deployment=chat&server={}&model=m&signal=request_rate",
    "/api/v1/signals?deployment=chat&server=s&model={}&signal=request_rate",
    "/api/v1/explain?deployment={}",
    "/api/v1/deployments/{}/explanation",
    "/api/v1/whatif?deployment={}",
    "/api/v1/events?deployment={}",
    "/api/v1/slos?name={}",
    "/incidents/{}",
    "/incidents?deployment={}",
    "/deployments/{}",
    "/probe?target={}",
)


def test_a_nul_in_a_name_is_a_mistake_of_whoever_asks():
    """PostgreSQL refuses to look for one: it would look like a database that is away."""
    with door({"web.mcp": "true"}) as opened:
        for path in NAMED:
            answer = opened.ask(path.format("a%00b"))
            assert (answer.status, "NUL" in json.loads(answer.data)["detail"]) == (404, True), path
        failed, text = call(opened.url, "explain", deployment="a\0b")
    assert failed
    assert "NUL" in text


@pytest.mark.live
def test_a_time_that_no_row_is_of_has_no_rows(tmp_path: Path):
    """Seconds after 2038 are no number of 32 bits, as the column of PostgreSQL is: they looked like a failure of it."""
    secret = tmp_path / "password"
    secret.write_text(PASSWORD)
    with postgres() as server:
        history = opened(tmp_path, database=server.url, database_password_file=secret)
        with door(history=history) as made:
            about = "deployment=chat&server=s&model=m&signal=request_rate"
            for span in ("start=253402300799&end=253402300799", "start=0&end=253402300799", "start=0.5&end=0.5"):
                assert made.json(f"/api/v1/signals?{about}&{span}") == []
