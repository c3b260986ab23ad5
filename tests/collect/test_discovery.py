from __future__ import annotations

import socket
import sys
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
from fake_triton import (
    FakeServer,
    api_routes,
    body_of,
    fake_triton,
    free_ports,
    guarded,
    metrics_routes,
    page,
    silent,
    status,
)

from diagnostics.errors import CollectError, UsageError
from diagnostics.wire.records import BodyKind
from exporters.sources import triton_grpc
from exporters.sources.access import ON_THE_COMMAND_LINE, SourceOptions
from exporters.sources.triton import discover, discover_all

QUICK = SourceOptions(timeout=1.0)
HTML = page(b"<!doctype html><title>Grafana</title>", "text/html")


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_from_any_of_the_three_ports_the_others_are_found(offset: int):
    with fake_triton() as fake:
        server = discover(f"127.0.0.1:{fake.port + offset}", QUICK)
        assert server.urls == (f"http://127.0.0.1:{fake.port}", f"http://127.0.0.1:{fake.port + 2}/metrics")


def test_a_closed_port_beside_which_a_triton_is_found_is_reported():
    with fake_triton() as fake:
        server = discover(f"127.0.0.1:{fake.port + 1}", QUICK)
        (note,) = server.notes
        assert note.startswith(f"127.0.0.1:{fake.port + 1}: connection refused;")
        assert server.blind_spots == ()
        assert discover(f"127.0.0.1:{fake.port}", QUICK).notes == ()


def test_the_metrics_url_finds_the_api():
    with fake_triton() as fake:
        server = discover(f"http://127.0.0.1:{fake.port + 2}/metrics", QUICK)
        assert server.api is not None
        assert server.metrics is not None


def test_a_server_is_named_as_prometheus_names_its_metrics_endpoint():
    with fake_triton() as fake:
        assert discover(f"127.0.0.1:{fake.port}", QUICK).name == f"127.0.0.1:{fake.port + 2}"


def test_without_metrics_the_gap_names_what_is_hidden_and_how_to_open_it():
    with fake_triton(metrics=False) as fake:
        server = discover(f"127.0.0.1:{fake.port}", QUICK)
    (spot,) = server.blind_spots
    assert "GPU" in spot.what
    assert f"connection refused at 127.0.0.1:{fake.port + 2}" in spot.why
    assert "--metrics-url" in spot.fix
    assert server.name == f"127.0.0.1:{fake.port}"


def test_with_metrics_alone_the_gap_says_that_statistics_are_missing():
    with fake_triton(api=False) as fake:
        server = discover(f"127.0.0.1:{fake.port + 2}", QUICK)
    assert server.api is None
    (spot,) = server.blind_spots
    assert "statistics, configuration and instance counts" in spot.what


def test_a_closed_http_port_still_leads_to_the_metrics_beside_it():
    with fake_triton(api=False) as fake:
        server = discover(f"127.0.0.1:{fake.port}", QUICK)
        failed = {(scrape.kind, scrape.error) for scrape in server.round() if scrape.error}
    assert server.urls == (f"http://127.0.0.1:{fake.port}", f"http://127.0.0.1:{fake.port + 2}/metrics")
    assert failed == {(BodyKind.STATISTICS, "connection refused"), (BodyKind.INDEX, "connection refused")}
    assert server.blind_spots == ()


def test_a_closed_http_port_that_was_only_guessed_is_not_requested_again():
    with fake_triton(api=False) as fake:
        server = discover(f"127.0.0.1:{fake.port + 2}", QUICK)
        first, second = server.round(), server.round()
    assert [scrape.error for scrape in first if scrape.error] == [server.blind_spots[0].why]
    assert [scrape.kind for scrape in second] == [BodyKind.METRICS]


def test_a_closed_http_port_that_opens_again_is_read():
    with fake_triton(api=False) as fake:
        server = discover(f"127.0.0.1:{fake.port}", QUICK)
        with FakeServer(api_routes(), fake.port).running():
            answered = {scrape.kind for scrape in server.round() if scrape.body}
    assert {BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.INDEX, BodyKind.CONFIG} <= answered


def test_without_the_grpc_extra_the_gap_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(triton_grpc.importlib, "import_module", missing)
    with fake_triton(api=False) as fake:
        server = discover(f"127.0.0.1:{fake.port + 2}", QUICK)
    assert server.blind_spots[0].fix == "pip install 'triton-diagnostics[grpc]'"


def test_a_busy_http_port_is_kept_and_requested_again():
    release = threading.Event()
    with fake_triton() as fake:
        answer, fake.api.routes["GET /v2"] = fake.api.routes["GET /v2"], silent(release)
        server = discover(f"127.0.0.1:{fake.port}", SourceOptions(timeout=0.3))
        release.set()
        fake.api.routes["GET /v2"] = answer
        assert server.blind_spots == ()  # its own reads tell whether it answers
        assert {scrape.kind for scrape in server.scrape() if scrape.body} == {
            BodyKind.METRICS,
            BodyKind.STATISTICS,
            BodyKind.INDEX,
        }


def test_an_explicit_metrics_url_is_used():
    with fake_triton(metrics=False) as fake, FakeServer(metrics_routes()).running() as elsewhere:
        options = SourceOptions(timeout=1.0, metrics_url=f"{elsewhere.url}/metrics")
        server = discover(f"127.0.0.1:{fake.port}", options)
        assert server.name == f"127.0.0.1:{elsewhere.port}"
        assert server.blind_spots == ()


def test_an_explicit_metrics_url_that_fails_is_an_error():
    with fake_triton() as fake:
        options = SourceOptions(timeout=1.0, metrics_url=f"http://127.0.0.1:{free_ports()}/metrics")
        with pytest.raises(CollectError, match="/metrics: connection refused"):
            discover(f"127.0.0.1:{fake.port}", options)


def test_a_metrics_page_that_shows_other_models_is_not_taken_for_this_servers():
    with fake_triton() as fake:
        other = body_of(BodyKind.METRICS).replace(b'model="', b'model="other-')
        fake.metrics.routes["GET /metrics"] = page(other)
        server = discover(f"127.0.0.1:{fake.port}", QUICK)
    assert server.metrics is None
    assert "another server's page" in server.blind_spots[0].why


@pytest.mark.parametrize(
    ("answer", "stated"),
    [
        (HTML, "an HTML page"),
        (page(b"node_load1 0.5\n"), "an unknown program (node_load1)"),
        (page(b"\0\1\2\3"), "binary data"),
        (page(b"{}", "application/json"), "JSON"),
        (page(b"hello there\n"), "not Prometheus metrics"),
        (status(500), "HTTP 500"),
    ],
)
def test_a_metrics_url_of_something_else_says_what_it_is(answer, stated):
    with FakeServer({"GET /metrics": answer}).running() as server, pytest.raises(CollectError) as caught:
        discover(f"{server.url}/metrics", QUICK)
    assert stated in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_port_of_another_program_is_not_taken_for_a_triton():
    site = FakeServer({"GET /": HTML, "GET /v2": HTML, "GET /metrics": HTML})
    with site.running(), pytest.raises(CollectError, match="no Triton found: an HTML page"):
        discover(site.url, QUICK)


def test_when_all_ports_are_closed_one_line_says_so():
    port = free_ports()
    with pytest.raises(CollectError) as caught:
        discover(f"127.0.0.1:{port}", QUICK)
    assert str(caught.value).startswith(f"http://127.0.0.1:{port}: no Triton found: connection refused at 127.0.0.1:")
    assert "\n" not in str(caught.value)


def test_what_is_not_installed_is_not_named_where_nothing_listens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tritonclient.grpc", None)
    with pytest.raises(CollectError) as caught:
        discover(f"127.0.0.1:{free_ports()}", QUICK)
    assert "not installed" not in str(caught.value)
    with (
        FakeServer({"GET /": HTML}).running() as site,
        pytest.raises(CollectError, match="gRPC support is not installed"),
    ):
        discover(site.url, QUICK)


@pytest.mark.parametrize("path", ["/tri", "/a/b"])
def test_a_path_before_which_nothing_is_found_is_doubted(path: str):
    with fake_triton() as fake, pytest.raises(CollectError) as caught:
        discover(f"http://127.0.0.1:{fake.port}{path}", QUICK)
    hint = f"if no proxy puts {path} before its paths, write http://127.0.0.1:{fake.port}"
    assert caught.value.hint == hint


def test_an_unknown_host_is_requested_only_once():
    with pytest.raises(CollectError, match="host name not found"):
        discover("http://no-such-host.invalid:8000", QUICK)


def test_credentials_of_the_url_are_used_and_not_shown():
    with fake_triton() as fake:
        for part in (fake.api, fake.metrics):
            part.routes = {path: guarded("Basic YW5uOnMzY3JldA==", answer) for path, answer in part.routes.items()}
        server = discover(f"http://ann:s3cret@127.0.0.1:{fake.port}", QUICK)
        reported = [scrape.error for scrape in server.round() if scrape.error]
        assert reported == [
            server.blind_spots[0].why
        ]  # the metrics port was not named: it is asked without credentials
        assert "s3cret" not in f"{server.urls} {server.name} {server.blind_spots}"
        with pytest.raises(CollectError, match="HTTP 401, credentials are missing"):
            discover(f"http://127.0.0.1:{fake.port}", QUICK)


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize(
    ("options", "step"),
    [
        (QUICK, f"give credentials: {ON_THE_COMMAND_LINE}"),
        (replace(QUICK, basic="ann:pw"), "look at these credentials"),
    ],
)
def test_a_server_that_wants_credentials_is_reported_how_they_are_given(code: int, options: SourceOptions, step: str):
    with FakeServer({"GET /v2": status(code)}).running() as server, pytest.raises(CollectError) as caught:
        discover(server.url, options)
    assert f"no Triton found: HTTP {code}, " in str(caught.value)
    assert caught.value.hint.startswith(step)


def test_a_page_behind_credentials_is_a_blind_spot_that_credentials_open():
    with fake_triton() as fake:
        fake.metrics.routes = {path: status(403) for path in fake.metrics.routes}
        (spot,) = discover(f"127.0.0.1:{fake.port}", QUICK).blind_spots
    assert "HTTP 403" in spot.why
    assert spot.fix == f"give credentials: {ON_THE_COMMAND_LINE}"


def test_a_path_prefix_of_a_gateway_leads_to_api_and_metrics():
    with fake_triton() as fake:
        gateway = FakeServer({}, free_ports())
        for route, answer in (fake.api.routes | fake.metrics.routes).items():
            method, _, path = route.partition(" ")
            gateway.routes[f"{method} /llm{path}"] = answer
        with gateway.running():
            server = discover(f"{gateway.url}/llm", QUICK)
            assert server.urls == (f"{gateway.url}/llm", f"{gateway.url}/llm/metrics")
            again = discover(f"{gateway.url}/llm/metrics", QUICK)
            assert again.urls == server.urls


def test_several_servers_are_found_at_once_and_each_only_once():
    with fake_triton() as one, fake_triton() as two:
        urls = [f"127.0.0.1:{one.port}", f"127.0.0.1:{one.port + 2}", f"127.0.0.1:{two.port}"]
        servers, failures = discover_all([*urls, f"127.0.0.1:{free_ports()}"], QUICK)
    assert [server.name for server in servers] == [f"127.0.0.1:{one.port + 2}", f"127.0.0.1:{two.port + 2}"]
    assert len(failures) == 1


def test_a_wrong_scheme_is_a_usage_error():
    with pytest.raises(UsageError):
        discover("ftp://triton:8000")


def test_a_port_that_speaks_something_else_leads_to_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    # What OpenSSL answers to HTTP: an alert that is no HTTP.
                    connection.sendall(b"\x15\x03\x01\x00\x02\x02\x46")
                    connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(CollectError) as caught:
            discover(f"http://127.0.0.1:{port}", SourceOptions(timeout=2.0))
        assert caught.value.hint == f"if the port speaks TLS, write https://127.0.0.1:{port}"


def test_a_host_that_nobody_knows_may_be_a_file_that_is_not_there() -> None:
    with pytest.raises(CollectError) as caught:
        discover("nothere.invalid/slow", SourceOptions(timeout=2.0))
    assert "no such file here" in caught.value.hint
