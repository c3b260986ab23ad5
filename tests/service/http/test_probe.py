from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from diagnostics.errors import UsageError
from diagnostics.service.http import probe
from diagnostics.service.http.probe import MOST_AT_ONCE, pinned, seconds_left
from tests.builders import SERVER
from tests.collect.fake_triton import FakeServer, fake_triton, status
from tests.service.http.door import Door, door, judged, show
from tests.store.lived import NAME

LOCAL = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
SOON = {"X_Prometheus_Scrape_Timeout_Seconds": "1"}


@pytest.fixture(scope="module")
def allowing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    file = tmp_path_factory.mktemp("probe") / "diag.toml"
    file.write_text('[probe]\nallowed_networks = ["127.0.0.0/8"]\n')
    with door(file=file) as one:
        yield one


def sample(text: bytes, name: str) -> float | None:
    found = [one.value for family in parse(text.decode()) for one in family.samples if one.name == name]
    return found[0] if found else None


def test_a_server_of_an_allowed_network_is_read_and_judged(allowing: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PAUSE", 0.1)
    with fake_triton() as triton:
        answer = allowing.ask(f"/probe?target=127.0.0.1:{triton.port}", **SOON)
    assert answer.status == 200
    assert sample(answer.data, "probe_success") == 1
    assert sample(answer.data, "diag_target_up") == 1
    assert 0 < (sample(answer.data, "probe_duration_seconds") or 0) < 5
    assert b"diag_verdict{" in answer.data


def test_a_server_that_is_not_there_is_a_failed_probe_whose_reason_is_logged(
    allowing: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    answer = allowing.ask("/probe?target=127.0.0.1:1", **SOON)
    assert (answer.status, sample(answer.data, "probe_success")) == (200, 0)
    assert "127.0.0.1:1 could not be probed: " in caplog.text


def test_of_two_targets_neither_is_probed(allowing: Door) -> None:
    answer = allowing.ask("/probe?target=127.0.0.1:1&target=127.0.0.1:2", **SOON)
    assert (answer.status, answer.json()["detail"]) == (400, "target: is there twice; give it once")


def test_no_redirect_is_followed(allowing: Door) -> None:
    with FakeServer().running() as elsewhere:
        moved = status(302, Location=f"{elsewhere.url}/v2")
        routes = {f"GET {path}": moved for path in ("/", "/v2", "/metrics", "/v2/health/ready")}
        with FakeServer(routes).running() as lures:
            answer = allowing.ask(f"/probe?target={lures.url}", **SOON)
        assert sample(answer.data, "probe_success") == 0
        assert elsewhere.seen == []


@pytest.mark.parametrize(
    ("query", "reported"),
    [
        ("target=192.0.2.1:8000", "is neither watched nor in an allowed network"),
        ("target=http://u:p@127.0.0.1:8000", "a target with credentials is not asked for"),
        ("target=file:///etc/passwd", "the scheme file:// is not known"),
        ("target=http://169.254.169.254/latest", "is neither watched nor in an allowed network"),
        ("target=127.0.0.1&module=tcp", "there is no module 'tcp'"),
        ("", "target: field required"),
        ("target=%0d%0aHost:x", "holds blanks or control characters"),
    ],
)
def test_what_may_not_be_requested_is_refused_in_one_line(allowing: Door, query: str, reported: str) -> None:
    answer = allowing.ask(f"/probe?{query}")
    assert answer.status == 400
    assert reported in answer.json()["detail"]
    assert "u:p" not in answer.json()["detail"]


def test_nothing_is_allowed_unless_it_is_listed() -> None:
    for target in ("127.0.0.1:8000", "localhost:8000", "http://[::1]:8000"):
        with pytest.raises(UsageError, match="is neither watched nor in an allowed network"):
            pinned(target, ())


def test_a_name_is_replaced_by_the_address_that_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"inside": ["127.0.0.9"], "rebound": ["127.0.0.9", "192.0.2.1"]}

    def resolve(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in answers[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert pinned("inside:8000", LOCAL) == "http://127.0.0.9:8000"
    assert pinned("https://inside", LOCAL) == "https://inside:443"
    with pytest.raises(UsageError, match="allowed network"):
        pinned("rebound:8000", LOCAL)


@pytest.mark.parametrize("target", ["[::ffff:192.0.2.1]:8000", "http://[::ffff:a9fe:a9fe]/"])
def test_an_address_within_an_address_does_not_lead_elsewhere(target: str) -> None:
    with pytest.raises(UsageError, match="allowed network"):
        pinned(target, (*LOCAL, ipaddress.ip_network("::/0")))


def test_a_watched_server_is_answered_from_its_window_and_not_requested(allowing: Door) -> None:
    with door() as opened:
        show(opened.service, judged())
        for target in (f"http://{SERVER}:8000", f"{SERVER}:8000", SERVER):
            answer = opened.ask(f"/probe?target={target}")
            assert (answer.status, sample(answer.data, "probe_success")) == (200, 1), target
            assert f'diag_finding{{check="request-failures",deployment="{NAME}"'.encode() in answer.data


def test_probes_beyond_a_few_are_reported_to_come_back(allowing: Door) -> None:
    probes = allowing.server._app.state.probes
    taken = [probes._free.acquire(blocking=False) for _ in range(MOST_AT_ONCE)]
    assert all(taken)
    try:
        answer = allowing.ask("/probe?target=127.0.0.1:1")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    finally:
        for _ in taken:
            probes._free.release()
    assert allowing.ask("/probe?target=127.0.0.1:1", **SOON).status == 200


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("10", 9.5),
        ("3.25", 2.75),
        ("", 9.5),
        ("x", 9.5),
        ("nan", 9.5),
        ("-1", 9.5),
        ("0.1", 0.5),
        ("inf", 9.5),
        ("1e9", 59.5),
    ],
)
def test_a_probe_ends_before_the_scraper_gives_up(header: str, seconds: float) -> None:
    assert seconds_left(header) == seconds


def test_a_network_that_is_none_is_reported_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "diag.toml"
    file.write_text('[probe]\nallowed_networks = ["10.0.0.0/33"]\n')
    with pytest.raises(UsageError, match=r"diag\.toml.*allowed_networks"):
        door(file=file).__enter__()
