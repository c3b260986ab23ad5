from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import bcrypt
import pytest
import urllib3
from starlette.routing import Route

from diagnostics.errors import CollectError, UsageError
from diagnostics.service.http import authentication, connection, guard
from diagnostics.service.http.authentication import MOST_ATTEMPTS, Attempts, Verdicts
from diagnostics.service.http.page import frame
from diagnostics.service.http.server import validate_listener
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.peers import Peers
from diagnostics.settings.tree import WebSettings
from tests.service.http.door import HASHED, PASSWORD, USER, Door, basic, certificate, door
from tests.service.parts import count, until

TOKEN = "a-long-token"
STATE = "/api/v1/state"
JSON = "application/json"


@pytest.fixture(scope="module")
def plain() -> Iterator[Door]:
    outside = {"web.external_url": "https://diag.example.org/triton", "web.route_prefix": "/"}
    with door({**outside, "web.allowed_hosts": "other.example.org"}) as one:
        yield one


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "web.yml"
    file.write_text(f"basic_auth_users:\n  {USER}: {HASHED}\n")
    return file


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST.", "diag.example.org", "other.example.org:80"])
def test_the_door_answers_to_its_own_names(plain: Door, host: str) -> None:
    assert plain.ask(STATE, Host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost@evil.example", "[::1", "a/b", ""]
)
def test_a_name_that_was_made_to_lead_here_is_refused(plain: Door, host: str) -> None:
    assert plain.ask(STATE, Host=host).status == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 405),
        ({"Origin": "https://diag.example.org", "Sec_Fetch_Site": "same-origin"}, 405),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
    ],
)
def test_no_other_sites_page_may_change_anything(plain: Door, headers: dict[str, str], status: int) -> None:
    assert plain.ask(STATE, "POST", body=b"{}", Content_Type=JSON, **headers).status == status


def test_the_doors_own_page_may(plain: Door) -> None:
    assert plain.ask(STATE, "POST", body=b"{}", Content_Type=JSON, Origin=plain.url).status == 405


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_can_send_is_no_content_type(plain: Door, kind: str) -> None:
    assert plain.ask("/v1/traces", "POST", body=b"{}", Content_Type=kind).status == 415


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_method_that_a_path_does_not_take_is_answered_with_those_it_takes(plain: Door, method: str) -> None:
    answer = plain.ask(STATE, method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert answer.json()["detail"].endswith(f"{STATE} does not take {method}; it takes GET, HEAD")
    assert plain.ask("/api/v1/nowhere", method).status == 404


def test_no_path_but_the_receiver_of_spans_takes_a_body(plain: Door) -> None:
    routes = (route for route in plain.server._app.routes if isinstance(route, Route) and route.path != "/v1/traces")
    assert {method for route in routes for method in route.methods or ()} <= guard.READING


def test_a_body_that_is_too_large_is_refused_by_its_length(plain: Door) -> None:
    answer = plain.ask("/v1/traces", "POST", body=b" " * (5 * 2**20), Content_Type=JSON)
    assert answer.status == 413


def test_every_answer_carries_the_headers_that_protect_it(plain: Door) -> None:
    for path in ("/healthz", STATE, "/nowhere"):
        headers = plain.ask(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        policy = headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert "script-src 'self' 'nonce-" in policy
        assert "script-src 'self' 'unsafe" not in policy
        assert "Server" not in headers


def test_nonces_are_never_the_same(plain: Door) -> None:
    policies = {plain.ask("/healthz").headers["Content-Security-Policy"] for _ in range(3)}
    assert len(policies) == 3


def test_whoever_has_no_credentials_sees_nothing_but_health(users: Path) -> None:
    with door({"web.config_file": str(users)}) as closed:
        for path in ("/", STATE, "/metrics", "/probe?target=x", "/api/v1/openapi.json", "/static/page.js", "/nope"):
            answer = closed.ask(path)
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Basic realm="diag"'), path
        assert {closed.ask(path).status for path in ("/healthz", "/readyz")} == {200}
        assert closed.ask(STATE, Authorization=basic()).status == 200


def test_users_and_tokens_open_the_door_and_nothing_else_does(users: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with door({"web.config_file": str(users), "web.bearer_token_file": str(tmp_path / "token")}) as closed:
        for right in (basic(), f"Bearer {TOKEN}", f"bearer {TOKEN}"):
            assert closed.ask(STATE, Authorization=right).status == 200
        for wrong in (basic("bob"), f"Bearer {TOKEN}x", f"Digest {TOKEN}", "Basic ???", "Basic", f"Bearer {HASHED}"):
            assert closed.ask(STATE, Authorization=wrong).status == 401, wrong
        assert closed.ask(STATE).headers["WWW-Authenticate"] == 'Basic realm="diag", Bearer realm="diag"'
        assert count(closed.service.metrics, "diag_http_refused_total", reason="credentials") == 7


def test_wrong_passwords_are_limited_and_a_known_right_one_is_not(users: Path) -> None:
    with door({"web.config_file": str(users)}) as closed:
        assert closed.ask(STATE, Authorization=basic()).status == 200
        statuses = [closed.ask(STATE, Authorization=basic(USER, f"no{i}")).status for i in range(MOST_ATTEMPTS + 2)]
        assert statuses[:MOST_ATTEMPTS] == [401] * MOST_ATTEMPTS
        assert statuses[-1] == 429
        assert closed.ask(STATE, Authorization=basic()).status == 200


def test_a_password_longer_than_bcrypt_reads_is_wrong(users: Path) -> None:
    with door({"web.config_file": str(users)}) as closed:
        assert closed.ask(STATE, Authorization=basic(USER, PASSWORD + "x" * 100)).status == 401


def test_attempts_come_back_with_time_and_an_ipv6_network_has_but_one_budget() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    assert [attempts.allow(f"2001:db8::{i:x}") for i in range(MOST_ATTEMPTS + 1)] == [True] * MOST_ATTEMPTS + [False]
    assert attempts.allow("2001:db8:0:1::1")
    now[0] = 6.5
    assert [attempts.allow("2001:db8::1"), attempts.allow("2001:db8::2")] == [True, False]


def test_verdicts_on_passwords_are_forgotten_beyond_a_number_and_right_ones_not_for_wrong_ones() -> None:
    verdicts = Verdicts()
    right, wrong = (verdicts.digest("a", b"hash", password) for password in (b"secret", b"wrong"))
    assert verdicts.digest("a", b"has", b"hsecret") != right
    verdicts.put(right, True)
    verdicts.put(wrong, False)
    assert (verdicts.get(right), verdicts.get(wrong)) == (True, False)
    for i in range(300):
        verdicts.put(verdicts.digest("a", b"hash", str(i).encode()), False)
    assert (verdicts.get(right), verdicts.get(wrong)) == (True, None)


def test_a_wrong_password_takes_as_long_for_a_cheap_user_as_for_a_dear_one_and_for_nobody(
    users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dear = HASHED.replace("$04$", "$06$")
    users.write_text(f"basic_auth_users:\n  {USER}: {HASHED}\n  bob: {dear}\n")
    rounds: list[int] = []

    def compared(password: bytes, hashed: bytes) -> bool:
        rounds.append(2 ** int(hashed[4:6]))
        return bcrypt.checkpw(password, hashed)

    monkeypatch.setattr(authentication, "bcrypt", SimpleNamespace(checkpw=compared))
    with door({"web.config_file": str(users)}) as closed:
        for name in (USER, "bob", "nobody"):
            rounds.clear()
            assert closed.ask(STATE, Authorization=basic(name, "wrong")).status == 401
            assert sum(rounds) == 2**6, name
        assert closed.ask(STATE, Authorization=basic()).status == 200


def test_changed_users_are_taken_up_and_a_broken_file_is_not(users: Path) -> None:
    with door({"web.config_file": str(users)}) as closed:
        assert closed.ask(STATE, Authorization=basic("carol")).status == 401
        users.write_text("basic_auth_users: [oops")
        until(lambda: count(closed.service.metrics, "diag_errors_total", part="web configuration") == 1)
        assert closed.ask(STATE, Authorization=basic()).status == 200
        users.write_text(f"basic_auth_users:\n  carol: {HASHED}\n")
        until(lambda: "carol" in closed.server._app.state.credentials.config.users)
        assert closed.ask(STATE, Authorization=basic("carol")).status == 200
        assert closed.ask(STATE, Authorization=basic()).status == 401


def test_authentication_does_not_end_with_an_emptied_file(users: Path) -> None:
    with door({"web.config_file": str(users)}) as closed:
        users.write_text("")
        until(lambda: count(closed.service.metrics, "diag_errors_total", part="web configuration") == 1)
        assert closed.ask(STATE).status == 401


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        ("0.0.0.0:9177", True),
        (":9177", True),
        ("[::]:9177", True),
        ("192.0.2.1:9177", True),
        ("triton.example.org:9177", True),
        ("127.0.0.1:9177", False),
        ("[::1]:9177", False),
        ("localhost:9177", False),
    ],
)
def test_only_loopback_is_open_to_everyone(address: str, refused: bool) -> None:
    if refused:
        with pytest.raises(UsageError, match=r"lets everyone in .*web\.allow_unauthenticated"):
            validate_listener(WebSettings(listen_address=address))
        validate_listener(WebSettings(listen_address=address, allow_unauthenticated=True))
    else:
        validate_listener(WebSettings(listen_address=address))


@pytest.mark.parametrize(
    "address", ["9177", "127.0.0.1", "http://127.0.0.1:9177", "1.2.3.4:99999", "a:b:c", "u@h:1", ""]
)
def test_an_address_that_is_none_is_reported_in_one_line(address: str) -> None:
    with pytest.raises(UsageError, match=r"^web\.listen_address: .*write host:port"):
        validate_listener(WebSettings(listen_address=address))


def test_everywhere_is_reached_by_any_address_but_by_no_strange_name(users: Path) -> None:
    with door({"web.listen_address": "0.0.0.0:0", "web.config_file": str(users)}) as everywhere:
        assert everywhere.ask("/healthz", Host="10.1.2.3:9177").status == 200
        assert everywhere.ask("/healthz", Host="evil.example").status == 421


def test_an_address_in_use_is_reported_in_one_line() -> None:
    reported = r"cannot listen: address already in use; free it"
    with door() as first, pytest.raises(CollectError, match=reported) as reported:
        door({"web.listen_address": f"127.0.0.1:{first.server.port}"}).__enter__()
    assert "\n" not in str(reported.value)


def test_tls_is_spoken_and_a_renewed_certificate_is_taken_up(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    file = tmp_path / "web.yml"
    file.write_text(
        "tls_server_config:\n  cert_file: localhost.pem\n  key_file: localhost.key\n  min_version: TLS13\n"
        "http_server_config:\n  headers:\n    Strict-Transport-Security: max-age=60\n"
    )
    trust = ssl.create_default_context(cafile=cert)
    with door({"web.config_file": str(file)}, tls=trust) as secure:
        assert secure.ask("/healthz").headers["Strict-Transport-Security"] == "max-age=60"
        old = ssl.create_default_context(cafile=cert)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection(("127.0.0.1", secure.server.port)) as raw, pytest.raises(ssl.SSLError):
            old.wrap_socket(raw, server_hostname="127.0.0.1")
        renewed, renewed_key = certificate(tmp_path, "renewed")
        renewed_key.replace(key)
        renewed.replace(cert)
        secure.tls = ssl.create_default_context(cafile=cert)
        until(lambda: answers(secure))


def answers(secure: Door) -> bool:
    try:
        return secure.ask("/healthz").status == 200
    except urllib3.exceptions.HTTPError:  # such as a certificate that is not trusted yet
        return False


def test_clients_without_a_certificate_are_turned_away_where_one_is_required(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    file = tmp_path / "web.yml"
    file.write_text(
        "tls_server_config:\n  cert_file: localhost.pem\n  key_file: localhost.key\n"
        "  client_ca_file: localhost.pem\n  client_auth_type: RequireAndVerifyClientCert\n"
    )
    trust = ssl.create_default_context(cafile=cert)
    with door({"web.config_file": str(file)}, tls=trust) as secure:
        assert not answers(secure)
        trust.load_cert_chain(cert, key)
        assert answers(secure)
    validate_listener(WebSettings(listen_address="0.0.0.0:1", config_file=file))


def talk(port: int, sent: bytes) -> bytes:
    """Return what comes back until the connection is closed."""
    parts = []
    with socket.create_connection(("127.0.0.1", port), timeout=5) as raw, contextlib.suppress(ConnectionResetError):
        raw.sendall(sent)
        while part := raw.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_headers_that_trickle_in_end_the_connection(plain: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEADERS_WITHIN", 0.2)
    begun = time.monotonic()
    for sent in (b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
        assert talk(plain.server.port, sent) == b""
    assert time.monotonic() - begun < 4


def test_a_handshake_that_nobody_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HANDSHAKE_WITHIN", 0.2)
    monkeypatch.setattr(connection, "HEADERS_WITHIN", 0.2)
    cert, key = certificate(tmp_path)
    file = tmp_path / "web.yml"
    file.write_text(f"tls_server_config: {{cert_file: {cert}, key_file: {key}}}\n")
    with door({"web.config_file": str(file)}, tls=ssl.create_default_context(cafile=cert)) as secure:
        begun = time.monotonic()
        record = b"\x16\x03\x01\x00\x06\x01\x00\x01\xfc\x03\x03"
        for sent in (b"", record[:-1], record):
            assert talk(secure.server.port, sent) == b""
        assert time.monotonic() - begun < 4


def test_headers_that_do_not_end_are_refused(plain: Door) -> None:
    answer = talk(plain.server.port, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000)
    assert answer.startswith(b"HTTP/1.1 4")


def test_a_body_that_trickles_in_is_refused(plain: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_WITHIN", 0.2)
    head = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = talk(plain.server.port, head + b"Connection: close\r\nContent-Length: 100\r\n\r\n{")
    assert answer.startswith((b"HTTP/1.1 408", b"HTTP/1.1 404", b"HTTP/1.1 405"))


@pytest.mark.parametrize("tls", [False, True])
def test_of_too_many_connections_the_oldest_give_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, tls: bool
) -> None:
    cert, key = certificate(tmp_path)
    written = tmp_path / "web.yml"
    written.write_text(f"tls_server_config: {{cert_file: {cert}, key_file: {key}}}\n" if tls else "")
    monkeypatch.setattr(connection, "MOST_WAITING", 5)
    trust = ssl.create_default_context(cafile=str(cert)) if tls else None
    with door({"web.config_file": str(written)}, tls=trust) as opened:
        faults = opened.service.metrics.faults
        with contextlib.ExitStack() as held:
            at = ("127.0.0.1", opened.server.port)
            silent = [held.enter_context(socket.create_connection(at, timeout=5)) for _ in range(12)]
            assert opened.ask("/healthz").data == b"ok\n"
            assert {one.recv(1) for one in silent[:7]} == {b""}
            assert [one.what for one in faults.lasting()] == ["taking connections"]
            assert count(opened.service.metrics, "diag_http_refused_total", reason="connections") >= 7
        until(lambda: opened.ask("/healthz").status == 200 and not faults.lasting())


def test_strangers_give_way_before_whoever_proved_who_it_is(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST_CONNECTIONS", 5)
    with (
        door({"web.config_file": str(users)}) as closed,
        urllib3.HTTPConnectionPool("127.0.0.1", closed.server.port) as kept,
    ):
        assert kept.request("GET", STATE, headers={"Authorization": basic()}).status == 200
        assert kept.request("GET", STATE, headers={"Authorization": "Bearer wrong"}).status == 401
        at = ("127.0.0.1", closed.server.port)
        with contextlib.ExitStack() as held:
            strangers = [held.enter_context(socket.create_connection(at, timeout=5)) for _ in range(12)]
            for one in strangers:
                one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert one.recv(4096).startswith(b"HTTP/1.1 200")
            assert {one.recv(4096) for one in strangers[:7]} <= {b"", b"ok\n"}
            assert {one.recv(1) for one in strangers[:7]} == {b""}
            assert kept.request("GET", STATE, headers={"Authorization": basic()}).status == 200
        assert kept.num_connections == 1


@pytest.mark.parametrize("length", ["Content-Length: 3000000", "Transfer-Encoding: chunked"])
def test_a_refused_body_is_not_waited_for(users: Path, length: str) -> None:
    head = f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n{length}\r\n\r\n"
    with door({"web.config_file": str(users)}) as closed:
        begun = time.monotonic()
        answer = talk(closed.server.port, head.encode())
        assert answer.startswith(b"HTTP/1.1 401")
        assert b"connection: close" in answer.lower()
        assert time.monotonic() - begun < 1


def test_a_refused_body_without_an_end_is_not_read(users: Path) -> None:
    head = f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk, sent = b"10000\r\n" + b" " * 2**16 + b"\r\n", 0
    with (
        door({"web.config_file": str(users)}) as closed,
        socket.create_connection(("127.0.0.1", closed.server.port), timeout=5) as endless,
    ):
        endless.sendall(head.encode())
        with contextlib.suppress(ConnectionError):  # after what the system takes for both
            while sent < 64 * 2**20:
                endless.sendall(chunk)
                sent += len(chunk)
        assert sent < 32 * 2**20
        assert endless.recv(12) == b"HTTP/1.1 401"


def test_an_open_path_reads_no_body_either(users: Path) -> None:
    with (
        door({"web.config_file": str(users)}) as closed,
        socket.create_connection(("127.0.0.1", closed.server.port), timeout=5) as endless,
    ):
        endless.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n")
        begun, answer = time.monotonic(), b""
        while part := endless.recv(4096):
            answer += part
        assert answer.endswith(b"ok\n")
        assert time.monotonic() - begun < 1


def test_where_the_system_gives_no_more_connections_the_faults_say_so_and_the_log_is_not_flooded() -> None:
    metrics, begun = OwnMetrics(), resource.getrlimit(resource.RLIMIT_NOFILE)
    listening = connection.ConnectionLimiter(socket.create_server(("127.0.0.1", 0)), metrics, Peers())
    listening.setblocking(False)
    with listening, socket.create_connection(listening.getsockname()):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, begun[1]))
            assert listening.take()
            with pytest.raises(OSError, match="Too many open files"):
                listening.accept()
            with pytest.raises(BlockingIOError):
                listening.accept()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, begun)
        assert [one.reason for one in metrics.faults.lasting()] == ["too many open files"]
        assert not listening.take()  # nothing of it has arrived
        with pytest.raises(BlockingIOError):
            listening.accept()
        assert not metrics.faults.lasting()


def test_the_door_opens_at_ipv6_too() -> None:
    with door({"web.listen_address": "[::1]:0"}) as six:
        answer = urllib3.request("GET", f"http://[::1]:{six.server.port}/healthz", retries=False)
        assert (answer.status, answer.data) == (200, b"ok\n")


def test_an_answer_that_is_not_taken_ends_the_connection(plain: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TAKEN_WITHIN", 0.1)
    monkeypatch.setattr(frame, "read", lambda name: frame.Asset(name, bytes(8 << 20)))
    connections = plain.server._server.server_state.connections
    until(lambda: not connections)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", plain.server.port))
        slow.sendall(b"GET /static/page.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: connections)
        until(lambda: not connections)


def test_an_unknown_name_is_not_let_in_with_a_known_ones_password(users: Path) -> None:
    with door({"web.config_file": str(users)}) as closed:
        assert closed.ask(STATE, Authorization=basic("nobody")).status == 401
        assert closed.ask(STATE, Authorization=basic("nobody")).status == 401
        assert closed.ask(STATE, Authorization=basic("")).status == 401


def test_requests_that_do_not_wait_for_answers_are_not_served(plain: Door) -> None:
    requested = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert talk(plain.server.port, requested * 50).count(b"ok\n") == 1
