"""Names that no client of ours asks for: each is refused for what is wrong with it."""

from __future__ import annotations

import json

from tests.service.http.door import door
from tests.service.http.test_agents import call

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
