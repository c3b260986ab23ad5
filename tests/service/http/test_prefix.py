"""Behind a proxy that serves the page below a path, whether it strips that path or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urljoin

import pytest
import urllib3

from diagnostics.errors import UsageError
from diagnostics.settings.addresses import Prefix, prefix_of
from diagnostics.settings.tree import WebSettings
from exporters.sinks.links import Links
from tests.service.http.door import door
from tests.service.proxy import proxy
from tests.service.serving import Serving, recorded
from tests.store.lived import NAME

EXTERNAL = "http://diag.example/tools/diag/"
ADDRESS = re.compile(r'(?:href|src|action|data-fragment|data-timeline|data-timelines)="(/[^"]*)"')


@pytest.fixture(scope="module", params=[False, True], ids=["keeps the path", "strips the path"])
def outside(request: pytest.FixtureRequest) -> Iterator[str]:
    with Serving((NAME,), web={"external_url": EXTERNAL, "route_prefix": "/" if request.param else None}) as made:
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        with proxy(made.port, "/tools/diag", strips=request.param) as url:
            yield url


def test_every_address_of_every_page_leads_through_the_proxy(outside: str) -> None:
    seen, waiting = set[str](), [f"{outside}/"]
    with urllib3.PoolManager(retries=False, timeout=10) as pool:
        while waiting:
            url = waiting.pop().replace("&amp;", "&")
            # All runbooks are alike: one is enough.
            if url in seen or ("/runbooks/" in url and any("/runbooks/" in one for one in seen)):
                continue
            seen.add(url)
            answer = pool.request("GET", url, redirect=False)
            # A timeline wants a history, which there is none of.
            assert answer.status == (404 if "/timelines/" in url else 200), url
            if "/static/" not in url and not url.endswith(".png"):
                waiting += (urljoin(url, one) for one in ADDRESS.findall(answer.data.decode()))

    kinds = {url.removeprefix(outside).strip("/").partition("/")[0] for url in seen}
    assert kinds >= {"", "deployments", "incidents", "runbooks", "search", "static", "fragments"}


def test_the_api_is_below_the_path_too_and_its_document_says_so(outside: str) -> None:
    document = urllib3.request("GET", f"{outside}/api/v1/openapi.json", timeout=10, retries=False).json()

    assert [one["url"] for one in document["servers"]] == ["/tools/diag"]
    assert urllib3.request("GET", f"{outside}/api/v1/state", timeout=10, retries=False).status == 200
    assert urllib3.request("GET", f"{outside}/healthz", timeout=10, retries=False).status == 200


def test_outside_its_path_there_is_only_the_way_to_it() -> None:
    with door({"web.external_url": EXTERNAL}) as one:
        assert {one.ask(path).headers["location"] for path in ("/", "/tools/diag")} == {"/tools/diag/"}
        for path in ("/metrics", "/healthz", "/tools/diagnosis/", "/api/v1/state"):
            assert one.ask(path).status == 404
        assert "below /tools/diag/" in one.ask("/metrics").json()["detail"]
        # Slashes at the end are taken away below the path, not from it.
        assert one.ask("/tools/diag/incidents/").headers["location"].endswith("/tools/diag/incidents")


def test_health_is_open_to_everyone_below_the_path_as_well(tmp_path_factory: pytest.TempPathFactory) -> None:
    token = tmp_path_factory.mktemp("door") / "token"
    token.write_text("s3cret")
    with door({"web.external_url": EXTERNAL, "web.bearer_token_file": str(token)}) as one:
        assert one.ask("/tools/diag/healthz").status == 200
        assert one.ask("/healthz").status == one.ask("/tools/diag/").status == one.ask("/").status == 401


@pytest.mark.parametrize(
    ("external", "route", "meant"),
    [
        ("", None, Prefix()),
        ("http://a/", None, Prefix()),
        ("http://a/diag/", None, Prefix(routes="/diag", links="/diag")),
        ("http://a/diag", "/", Prefix(routes="", links="/diag")),
        ("http://a/diag", "inner/", Prefix(routes="/inner", links="/diag")),
        ("", "/diag", Prefix(routes="/diag", links="/diag")),
    ],
)
def test_the_settings_mean_what_they_mean_to_prometheus(external: str, route: str | None, meant: Prefix) -> None:
    assert prefix_of(external, route) == meant


@pytest.mark.parametrize("route", ["/a b", '/"><script>', "/a//b", "/../b", "/%2e", "/ä"])
def test_a_path_that_would_have_to_be_encoded_is_refused(route: str) -> None:
    with pytest.raises(UsageError, match=r"web\.route_prefix"):
        prefix_of("", route)


def test_alerts_lead_below_the_path() -> None:
    assert Links.of(WebSettings(external_url=EXTERNAL)).runbook("a") == "http://diag.example/tools/diag/runbooks/a"
    assert Links.of(WebSettings(route_prefix="/diag")).runbook("a") == "http://127.0.0.1:9177/diag/runbooks/a"
