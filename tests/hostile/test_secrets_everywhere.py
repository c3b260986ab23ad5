"""A canary in every place that can hold a secret, and a search of everything that comes out."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import lzma
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import urllib3
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from diagnostics.cli.apply import _control
from diagnostics.cli.main import main
from diagnostics.cli.process_title import without_secrets
from diagnostics.errors import CollectError, UsageError
from diagnostics.settings.addresses import shown, without_credentials
from diagnostics.settings.load import load
from diagnostics.store.database import database_of
from diagnostics.wire.records import BodyKind
from diagnostics.wire.spans import MODEL_NAME, SERVICE_NAME
from exporters.sources.access import SourceOptions, read_secret
from exporters.sources.http import redirected
from exporters.sources.triton import discover
from tests.collect.fake_triton import Answer, FakeServer, FakeTriton, body_of, fake_triton, guarded, page, status
from tests.soak.running import environment, until

CANARY = "k9CaNaRy"
QUICK = SourceOptions(timeout=2.0)


def secret(place: str) -> str:
    return f"{CANARY}{place}0123456789"


def echoing(kind: str, body: bytes) -> Answer:
    """Answer with what was sent for authorization inside of the body."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        sent = handler.headers.get("Authorization", "none")
        bare = sent.partition(" ")[2]
        page(body.replace(b"@SENT@", sent.encode()).replace(b"@BARE@", bare.encode()), kind)(handler)

    return answer


def echo_everything(fake: FakeTriton) -> None:
    """Have a recorded server repeat the credentials it is sent, in bodies, errors and redirects."""
    assert fake.api is not None
    assert fake.metrics is not None
    row = b'nv_inference_request_success{model="@BARE@",version="1",echo="@SENT@"} 7\n# HELP x @SENT@\n'
    fake.metrics.routes["GET /metrics"] = echoing("text/plain", body_of(BodyKind.METRICS) + row)
    for place, answer in list(fake.api.routes.items()):
        if place.endswith("/config"):
            described = (
                b'{"name":"chat","platform":"@SENT@","parameters":{"note":{"string_value":"@BARE@"},"api_key":'
                b'{"string_value":"%s"}}}' % secret("x").encode()
            )
            fake.api.routes[place] = echoing("application/json", described) if "chat" in place else answer
    index = json.loads(body_of(BodyKind.INDEX))
    index.append({"name": "@BARE@", "version": "1", "state": "READY", "reason": "@SENT@"})
    why = f"no such file: s3://u:{secret('v')}@bucket/lost, tried as @SENT@ with --api-key {secret('y')}"
    index.append({"name": "lost", "version": "1", "state": "UNAVAILABLE", "reason": why})
    fake.api.routes["POST /v2/repository/index"] = echoing("application/json", json.dumps(index).encode())
    fake.api.routes["GET /v2/models/@BARE@/config"] = status(500, b'{"error": "no"}')


def reported(output: str | bytes) -> list[str]:
    """Return what of an output holds a canary, as it is or in base64."""
    data = output if isinstance(output, bytes) else output.encode("utf-8", "surrogateescape")
    coded = [base64.b64encode(b"x" * shift + CANARY.encode())[4 * bool(shift) : -4] for shift in range(3)]
    found = [line for line in data.splitlines() if CANARY.encode() in line or CANARY.lower().encode() in line]
    found += [line for line in data.splitlines() if any(part in line for part in coded)]
    return [line[:300].decode("utf-8", "replace") for line in found]


def kept(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every file below a folder, unpacked: databases, journals, recorded bodies."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        yield str(path), lzma.decompress(data) if path.suffix == ".xz" else data


@pytest.mark.parametrize(
    "address",
    [
        f"user:{secret('a')}@127.0.0.1:1",
        f"http://user:{secret('a')}@127.0.0.1:1",
        f"http://user:a/{secret('a')}@127.0.0.1:1",
        f"http://user:{secret('a')}/x@127.0.0.1:1",
        f"http://user:{secret('a')}#x@127.0.0.1:1",
        f"user:{secret('a')}?x@127.0.0.1:1",
        f"http:/user:{secret('a')}@127.0.0.1:1",
        f"http://127.0.0.1:1/?token={secret('a')}",
        f"127.0.0.1:1/metrics#{secret('a')}",
        f"ftp://u:{secret('a')}@127.0.0.1:1",
        f"prometheus+http://u:{secret('a')}@127.0.0.1:1",
        f"prometheus+http://127.0.0.1:1/#{secret('a')}",
        f"prometheus+http://127.0.0.1:1?token={secret('a')}",
    ],
)
def test_no_command_shows_the_secret_of_an_address(
    address: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIAG_DEBUG", "1")
    for words in (
        ["explain", address, "--timeout", "1s"],
        ["explain", "127.0.0.1:1", "--metrics-url", address, "--timeout", "1s"],
        ["record", address, "--timeout", "1s", "-o", str(tmp_path / "x.tar.xz")],
        ["serve", address, "--check-config"],
    ):
        assert main(words) in (2, 3), words
        out, err = capsys.readouterr()
        assert reported(out + err) == [], words


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://diag:{secret('d')}@db/diag",
        f"postgresql://diag:a/{secret('d')}#b@db/diag",
        f"postgresql://diag:a@{secret('d')}@db/diag",
        f"postgresql://diag:a@x:{secret('d')}/b@db/diag",
        f"postgresql://db/diag?user=diag&password={secret('d')}",
        f"mysql://diag:{secret('d')}@db/diag",
    ],
)
def test_no_database_url_shows_its_password(url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    loaded = load(None, {"DIAG_HISTORY__DATABASE": url}, {"history.directory": str(tmp_path)})
    shown_ = "\n".join(value for _, value, _ in loaded.lines())
    with contextlib.suppress(UsageError):
        made = database_of(loaded.settings.history, read_secret)
        shown_ += made.set(query={}).render_as_string(hide_password=True)
    assert reported(shown_) == []


def test_an_address_is_shown_without_whatever_may_be_a_secret() -> None:
    assert shown("user:a/b#c@d@host:8000/v2?token=x") == "[REDACTED]@host:8000/v2?[REDACTED]"
    assert shown("http://host:8000/v2") == "http://host:8000/v2"
    assert shown("host#x") == "host?[REDACTED]"
    assert without_credentials("at http://a:b@c:1 and http://d") == "at http://[REDACTED]@c:1 and http://d"


@pytest.mark.parametrize("name", ["server.0.url", "alertmanager.urls"])
@pytest.mark.parametrize("url", ["u:p@host:8000", "http://u:p@host", "http://host/?t=x", "host#x", "http://u:p/q@host"])
def test_settings_refuse_an_address_that_holds_one(name: str, url: str, tmp_path: Path) -> None:
    file = tmp_path / "diag.toml"
    file.write_text(f"[[server]]\nurl = '{url}'\n" if "server" in name else f"[alertmanager]\nurls = ['{url}']\n")
    with pytest.raises(UsageError) as refused:
        load(file, {}, {})
    assert url not in str(refused.value)


def test_credentials_go_to_no_port_that_was_not_named() -> None:
    options = SourceOptions(timeout=2.0, bearer_token=secret("t"), headers={"X-Key": secret("h")})
    with fake_triton() as fake:
        assert fake.api is not None
        assert fake.metrics is not None
        found = discover(f"127.0.0.1:{fake.port}", options)
        found.round()
        named, guessed = fake.api.seen, fake.metrics.seen
        assert guessed
        assert {headers.get("Authorization") for _, headers in named} == {f"Bearer {secret('t')}"}
        assert not [path for path, headers in guessed if reported(str(headers))]
        guessed.clear()
        discover(
            f"127.0.0.1:{fake.port}",
            SourceOptions(timeout=2.0, bearer_token=secret("t"), metrics_url=f"127.0.0.1:{fake.port + 2}/metrics"),
        )
        assert {headers.get("Authorization") for _, headers in guessed} == {f"Bearer {secret('t')}"}


def test_a_change_takes_credentials_to_no_port_that_was_not_named() -> None:
    options = SourceOptions(timeout=2.0, bearer_token=secret("t"))
    with fake_triton() as fake:
        assert fake.api is not None
        _control(f"127.0.0.1:{fake.port + 2}", options).config("chat")
        assert fake.api.seen
        assert not [path for path, headers in fake.api.seen if reported(str(headers))]
        _control(f"ann:{secret('p')}@127.0.0.1:{fake.port}", SourceOptions(timeout=2.0)).config("chat")
        assert fake.api.seen[-1][1]["Authorization"].startswith("Basic ")


def test_a_configuration_that_repeats_our_credentials_is_not_put_back() -> None:
    with fake_triton() as fake:
        echo_everything(fake)
        control = _control(f"127.0.0.1:{fake.port}", SourceOptions(timeout=2.0, bearer_token=secret("t")))
        with pytest.raises(CollectError, match="holds the credentials of this command"):
            control.config("chat")


def test_a_page_that_wants_credentials_beside_the_named_port_says_to_name_it() -> None:
    options = SourceOptions(timeout=2.0, bearer_token=secret("t"))
    with fake_triton() as fake:
        assert fake.metrics is not None
        fake.metrics.routes = {path: guarded("Bearer x", one) for path, one in fake.metrics.routes.items()}
        (spot,) = discover(f"127.0.0.1:{fake.port}", options).blind_spots
    assert "--metrics-url" in spot.fix


@pytest.mark.parametrize("output", ["text", "json", "markdown", "html"])
def test_an_echoed_credential_is_in_no_report_and_no_capture(
    output: str, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIAG_BASIC_AUTH", f"ann:{secret('p')}/+")
    capture = tmp_path / "kept.tar.xz"
    with fake_triton() as fake:
        echo_everything(fake)
        place = [f"127.0.0.1:{fake.port}", "--metrics-url", f"http://127.0.0.1:{fake.port + 2}/metrics"]
        assert main(["explain", *place, "--window", "1s", "--output", output]) in (0, 1, 3)
        if output == "json":
            assert main(["record", *place, "--for", "1s", "--interval", "0.5s", "-o", str(capture)]) == 0
    out, err = capfdbinary.readouterr()
    assert reported(out + err) == []
    if output == "json":
        with tarfile.open(capture) as bodies:
            members = {one.name: bodies.extractfile(one).read() for one in bodies if one.isfile()}  # type: ignore[union-attr]
        assert members
        assert [name for name, data in members.items() if reported(data) or reported(name)] == []


def test_no_tool_of_an_agent_shows_a_secret(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.pbtxt").write_text(f'name: "http://u:{secret("r")}@h" api_key: "Bearer {secret("r")}"')
    closed = f"http://u:{secret('a')}@127.0.0.1:1"
    with FakeServer().running() as server:
        server.routes["GET /v2"] = server.routes["GET /metrics"] = echoing("text/plain", b"@SENT@ @BARE@\n")
        calls: list[tuple[str, dict[str, object]]] = [
            ("explain", {"source": server.url}),
            ("explain", {"source": closed}),
            ("diff", {"before": closed, "after": closed}),
            ("lint", {"paths": [str(tmp_path)]}),
            ("incidents", {}),
        ]

        async def conversation() -> list[str]:
            given = {**environment(), "DIAG_BASIC_AUTH": f"ann:{secret('p')}", "DIAG_URL": closed}
            words = ["-m", "tests.hostile.entry", "mcp"]
            command = StdioServerParameters(command=sys.executable, args=words, env=given)
            async with Client(stdio_client(command)) as agent:
                return [repr(await agent.call_tool(name, one)) for name, one in calls]

        answers = asyncio.run(asyncio.wait_for(conversation(), 120))
        assert server.seen
    assert "REDACTED" in "".join(answers)
    assert {name: reported(answer) for (name, _), answer in zip(calls, answers, strict=True) if reported(answer)} == {}


def test_a_redirect_takes_no_credential_along_and_shows_none() -> None:
    options = SourceOptions(timeout=2.0, bearer_token=secret("t"))
    with FakeServer().running() as other:
        away = status(302, Location=f"{other.url}/?token={secret('t')}")
        with (
            FakeServer({"GET /v2": away, "GET /metrics": away}).running() as server,
            pytest.raises(CollectError) as failed,
        ):
            discover(server.url, options)
        assert other.seen == []
    assert reported(str(failed.value)) == []


@pytest.mark.parametrize("place", [f"/login?t={secret('l')}", f"/#{secret('l')}", f"http://u:{secret('l')}@h/x", "/x"])
def test_where_an_answer_redirects_to_shows_no_secret(place: str) -> None:
    shown_ = redirected({"Location": place})
    assert reported(shown_) == []
    assert shown_.endswith(("/login", "/", "/x"))


def test_arguments_are_hidden_from_the_list_of_processes(tmp_path: Path) -> None:
    hidden = without_secrets(
        b"diag\0explain\0u:pw/x@host:1\0http://u:pw@h\0--header\0X-Key: pw\0--header=A:pw\0/pw:x\0a\0"
    )
    assert b"pw" not in hidden.replace(b"/pw:x", b"")
    assert hidden.startswith(b"diag\0explain\0")
    assert hidden.count(b"\0") == 9
    release = FakeServer()
    with release.running():
        words = ["explain", f"u:{secret('a')}@127.0.0.1:{release.port}", "--header", f"X-Key: {secret('h')}"]
        code = [sys.executable, "-m", "tests.hostile.entry", *words]
        started = subprocess.Popen(code, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            seen = Path(f"/proc/{started.pid}/cmdline")
            until(lambda: b"X-Key:**" in seen.read_bytes(), 10)
            assert reported(seen.read_bytes()) == []
        finally:
            started.kill()
            started.wait()


SETTINGS = """
[web]
listen_address = "127.0.0.1:0"
bearer_token_file = "{folder}/web-token"
config_file = "{folder}/web.yml"
mcp = true
[collect]
interval = "1s"
timeout = "1s"
window = "10s"
[history]
directory = "{folder}/data"
[log]
level = "debug"
format = "{format}"
[alertmanager]
urls = ["http://127.0.0.1:{closed}", "http://127.0.0.1:{receiver}/am"]
basic_auth_file = "{folder}/alertmanager"
min_severity = "info"
[[webhook]]
url_file = "{folder}/hook"
bearer_token_file = "{folder}/hook-token"
secret_file = "{folder}/hook-secret"
[[webhook]]
url = "http://127.0.0.1:{receiver}/taken"
[[notification]]
name = "chat"
url_file = "{folder}/chat"
min_severity = "info"
[[notification]]
name = "pager"
url_env = "PAGER"
min_severity = "info"
[[server]]
url = "http://127.0.0.1:{port}"
metrics_url = "http://127.0.0.1:{metrics}/metrics"
basic_auth_file = "{folder}/server"
"""


PODS = "/api/v1/namespaces/default/pods?limit=500"
DISCOVERY = """
[[discovery.file]]
files = ["{folder}/targets.json", "{folder}/broken.json"]
server_bearer_token_file = "{folder}/found"
[[discovery.http]]
url = "http://127.0.0.1:{receiver}/list"
bearer_token_file = "{folder}/list-token"
server_basic_auth_file = "{folder}/server"
[[discovery.http]]
url = "http://127.0.0.1:{receiver}/fails"
basic_auth_file = "{folder}/list-user"
[[discovery.dns]]
names = ["{name}.invalid"]
nameserver = "127.0.0.1:{closed}"
timeout = "1s"
server_bearer_token_file = "{folder}/found"
[[discovery.kubernetes]]
namespace = "default"
kubeconfig = "{folder}/kubeconfig"
server_bearer_token_file = "{folder}/found"
[[discovery.prometheus]]
url = "http://127.0.0.1:{receiver}/prometheus"
jobs = ["triton"]
basic_auth_file = "{folder}/list-user"
"""


def discovered(folder: Path, receiver: FakeServer) -> None:
    """Write lists of servers that hold secrets, and have sources of others repeat the credentials they are sent."""
    of_file = [f"u:{secret('f')}@127.0.0.1:1", f"127.0.0.1:1/?token={secret('f')}", "127.0.0.1:2"]
    labels = {"api_key": secret("f"), "note": f"Bearer {secret('f')}", "url": f"http://u:{secret('f')}@h"}
    (folder / "targets.json").write_text(json.dumps([{"targets": of_file, "labels": labels}]))
    (folder / "broken.json").write_text(f'[{{"targets": ["{secret("f")}@"')
    (folder / "found").write_text(secret("g"))
    (folder / "list-token").write_text(secret("i"))
    (folder / "list-user").write_text(f"ann:{secret('j')}")
    cluster = {"name": "c", "cluster": {"server": receiver.url}}
    user = {"name": "u", "user": {"token": secret("k8")}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    made = {"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "x"}
    (folder / "kubeconfig").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **made}))
    json_kind = "application/json"
    listed = [{"targets": ["@BARE@:x", "a@SENT@", "127.0.0.1:3"], "labels": {"sent": "@SENT@", "deployment": "@BARE@"}}]
    receiver.routes["GET /list"] = echoing(json_kind, json.dumps(listed).encode())
    refused = b'{"status":"error","kind":"Status","code":403,"message":"@SENT@ may not","error":"@SENT@ @BARE@"}'

    def refusing(handler: BaseHTTPRequestHandler) -> None:
        sent = handler.headers.get("Authorization", "none")
        status(403, refused.replace(b"@SENT@", sent.encode()).replace(b"@BARE@", sent.partition(" ")[2].encode()))(
            handler
        )

    receiver.routes |= {f"GET {path}": refusing for path in SOURCES[1:]}


def traced() -> bytes:
    """Return a span of a served model, whose name and attributes hold secrets."""
    now = time.time_ns()
    texts = {
        MODEL_NAME: "chat",
        "http.url": f"http://u:{secret('z')}@h/?token={secret('z')}",
        "api_key": secret("z"),
        "http.request.header.authorization": f"Bearer {secret('z')}",
    }
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()]
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": f"GET http://u:{secret('z')}@h", "attributes": attributes}
    span |= {"startTimeUnixNano": str(now - 10**8), "endTimeUnixNano": str(now)}
    named = {"attributes": [{"key": SERVICE_NAME, "value": {"stringValue": f"shop --token {secret('z')}"}}]}
    return json.dumps({"resourceSpans": [{"resource": named, "scopeSpans": [{"spans": [span]}]}]}).encode()


SOURCES = ("/list", "/fails", "/prometheus/api/v1/targets?state=active", PODS)


def taking(bodies: list[bytes]) -> Answer:
    """Answer 200, and remember what was sent: its body, and its headers without those that are to hold secrets."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        headers = {name: value for name, value in handler.headers.items() if name.lower() != "authorization"}
        bodies.append(repr(headers).encode() + b"\n" + handler.body)  # type: ignore[attr-defined]
        page(b"", "application/json")(handler)

    return answer


@pytest.mark.parametrize("log_format", ["logfmt", "json"])
def test_no_secret_of_the_service_comes_out(tmp_path: Path, log_format: str) -> None:
    for name, text in {
        "web-token": secret("w"),
        "alertmanager": f"am:{secret('m')}",
        "hook-token": secret("k"),
        "hook-secret": secret("s"),
        "server": f"ann:{secret('p')}",
        "web.yml": "",
    }.items():
        (tmp_path / name).write_text(text)
    with fake_triton() as fake, FakeServer({}).running() as receiver:
        echo_everything(fake)
        hook = f"/{secret('u')}"
        receiver.routes[f"POST {hook}"] = status(500, f"no such hook: {hook}, {secret('k')}".encode())
        alerted: list[bytes] = []
        messages: list[bytes] = []
        receiver.routes["POST /am/api/v2/alerts"], receiver.routes["POST /taken"] = taking(alerted), taking(messages)
        (tmp_path / "hook").write_text(f"{receiver.url}{hook}")
        chat = f"json://u:{secret('c')}@127.0.0.1:{receiver.port}"
        (tmp_path / "chat").write_text(f"{chat}/{secret('c')}?+X-Key={secret('c')}")
        receiver.routes[f"POST /{secret('c')}"] = status(400, f"u:{secret('c')} may not".encode())
        file = tmp_path / "diag.toml"
        ports = {"port": fake.port, "metrics": fake.port + 2, "closed": fake.port + 1, "receiver": receiver.port}
        discovered(tmp_path, receiver)
        file.write_text((SETTINGS + DISCOVERY).format(folder=tmp_path, format=log_format, name="triton", **ports))
        variables = {**environment(), "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {secret('o')}"}
        variables |= {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_TRACES_EXPORTER": "otlp"}
        variables |= {"PAGER": f"jsons://u:{secret('n')}@127.0.0.1:{receiver.port}/{secret('n')}"}
        variables |= {"https_proxy": f"http://u:{secret('x')}@127.0.0.1:1", "DIAG_BASIC_AUTH": f"u:{secret('e')}"}
        words = [sys.executable, "-m", "tests.hostile.entry", "serve", "--config.file", str(file)]
        checked = subprocess.run([*words, "--check-config"], env=variables, capture_output=True, timeout=60, check=True)
        log = tmp_path / "log"
        with log.open("wb") as opened:
            running = subprocess.Popen(words, env=variables, stdout=opened, stderr=opened)
        try:
            until(lambda: {f"GET {path}" for path in SOURCES} <= {path for path, _ in receiver.seen}, 60)
            answers = dict(_requested(running, log))
            until(lambda: f"POST /{secret('c')}" in {path for path, _ in receiver.seen}, 60)
            until(lambda: b"model-unavailable" in b"".join(alerted) and b"model-unavailable" in b"".join(messages), 60)
            titles = [Path(f"/proc/{one}/cmdline").read_bytes() for one in _family(running.pid)]
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(30)
    outputs = {"--check-config": checked.stdout + checked.stderr, "log": log.read_bytes(), **answers}
    outputs |= {"Alertmanager": b"\n".join(alerted), "webhook": b"\n".join(messages)}
    assert b"lost" in outputs["Alertmanager"]
    assert b"lost" in outputs["webhook"]
    outputs |= dict(kept(tmp_path / "data")) | {f"title {number}": one for number, one in enumerate(titles)}
    assert b"REDACTED" in b"".join(outputs.values())
    assert {name: reported(data) for name, data in outputs.items() if reported(data)} == {}


def _requested(running: subprocess.Popen[bytes], log: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what the service answers on each of its paths, once it has judged."""
    until(lambda: b"listening on" in log.read_bytes() or running.poll() is not None, 60)
    port = re.split(r"\D", log.read_text().partition("listening on 127.0.0.1:")[2], maxsplit=1)[0]
    pool = urllib3.PoolManager(retries=False, timeout=10, headers={"Authorization": f"Bearer {secret('w')}"})

    def requested(path: str) -> bytes:
        return pool.request("GET", f"http://127.0.0.1:{port}{path}").data

    until(lambda: json.loads(requested("/api/v1/state"))["deployments"], 60)
    taken = pool.request(
        "POST",
        f"http://127.0.0.1:{port}/v1/traces",
        body=traced(),
        headers={**pool.headers, "Content-Type": "application/json"},
    )
    assert taken.status == 200, taken.data
    failing = (b"/fails", b"kubernetes", b"dns", b"/prometheus")  # sources of discovery
    until(lambda: all(source in requested("/api/v1/state") for source in failing), 60)
    name = json.loads(requested("/api/v1/state"))["deployments"][0]["name"]
    explained = f"/api/v1/deployments/{name}/explanation"
    for path in (
        "/",
        "/metrics",
        "/api/v1/state",
        "/api/v1/targets",
        "/api/v1/deployments",
        "/api/v1/incidents",
        "/api/v1/openapi.json",
        f"/deployments/{name}",
        "/fleet",
        "/nowhere",
        f"/probe?target=u:{secret('q')}@h",
        explained,
        f"{explained}?output=html",
        f"{explained}?output=text",
        f"/api/v1/explain?deployment={name}",
        f"/api/v1/whatif?deployment={name}&rate=2x&output=text",
        f"/deployments/{name}/what-if?rate=2x",
    ):
        yield path, requested(path)
    kinds = {**pool.headers, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for tool, given in {"state": {}, "incidents": {}, "explain": {"deployment": name}}.items():
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": given}}
        answer = pool.request("POST", f"http://127.0.0.1:{port}/mcp", body=json.dumps(call), headers=kinds)
        assert answer.status == 200, answer.data
        yield f"/mcp {tool}", answer.data
    pool.clear()


def _family(pid: int) -> list[int]:
    """Return a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in _family(int(child)))]
