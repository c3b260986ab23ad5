"""Names that a running server makes up, followed to every place where the service shows or keeps them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import quote

import pytest
from prometheus_client.parser import text_string_to_metric_families

from diagnostics.wire.records import BodyKind
from tests.captures.recorded import scrapes_of
from tests.collect.fake_triton import Answer, FakeServer, FakeTriton, fake_triton, free_ports, page, status
from tests.soak.running import serving, until

pytestmark = pytest.mark.live
CAUSE, MODEL = "cpu-handed-single-instance", "safety"
HOSTILE = "s\"a'f{e}t\\y <img src=x onerror=alert(1)> {{.}} $(id) %0a &amp; -- ]]> *_`"
"""A folder can be called so; it is the name of the model that is at fault."""
TAMED = HOSTILE.replace("<", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}").replace(
    ">", "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
)
"""As alerts have it: receivers put them into pages and messages."""
IMPOSSIBLE = ["\\ud800bad", "../../etc/passwd", "a/b", "..", "", "a\\u0000b", 'a\\nb\\"}', "x" * 60_000, "\\u202ee"]


def renamed(text: bytes) -> bytes:
    """Return JSON in which the model at fault has the hostile name."""
    return text.replace(f'"{MODEL}"'.encode(), json.dumps(HOSTILE).encode())


def with_entries(kind: BodyKind, body: bytes) -> bytes:
    """Return a body with the hostile name, and with an entry for each name that cannot be."""
    if kind is BodyKind.METRICS:
        escaped = HOSTILE.replace("\\", "\\\\").replace('"', '\\"')
        body = body.replace(f'model="{MODEL}"'.encode(), f'model="{escaped}"'.encode())
        names = ["../../etc/passwd", "..", "", "a\\nb", "x" * 60_000, "\u202ee", "a\u0000b"]
        rows = [f'nv_inference_request_success{{model="{name}",version="1"}} 7\n'.encode() for name in names]
        return body + b"".join(rows)
    body = renamed(body)
    if kind is BodyKind.STATISTICS:
        entry = '{{"name":"{}","version":"1","inference_stats":{{"success":{{"count":5,"ns":5}}}}}}'
        more = ",".join(map(entry.format, IMPOSSIBLE)).encode()
        return body.rstrip()[: body.rstrip().rindex(b"]")] + b"," + more + b"]}"
    if kind is BodyKind.INDEX:
        more = ",".join(f'{{"name":"{name}","version":"1","state":"READY"}}' for name in IMPOSSIBLE).encode()
        return body.rstrip()[:-1] + b"," + more + b"]"
    return body


class Replayed:
    """Answers each request with the next recorded body, and goes on with the last."""

    def __init__(self, kind: BodyKind) -> None:
        bodies = [one.body for one in scrapes_of(CAUSE) if one.kind is kind and one.body is not None]
        self.left = [with_entries(kind, body) for body in bodies]

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        page(self.left.pop(0) if len(self.left) > 1 else self.left[0], "application/json")(handler)


def hostile(fake: FakeTriton) -> None:
    assert fake.api is not None
    assert fake.metrics is not None
    fake.metrics.routes["GET /metrics"] = Replayed(BodyKind.METRICS)
    fake.api.routes["GET /v2/models/stats"] = Replayed(BodyKind.STATISTICS)
    fake.api.routes["POST /v2/repository/index"] = Replayed(BodyKind.INDEX)
    for one in scrapes_of(CAUSE):
        if one.kind is BodyKind.CONFIG and one.body is not None:
            name = HOSTILE if one.name == MODEL else one.name
            fake.api.routes[f"GET /v2/models/{quote(name, safe='')}/config"] = page(renamed(one.body))


class Elements(HTMLParser):
    """Notes the pictures and handlers of a document: what the name would be if it were not escaped."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [tag] * (tag == "img") + [name for name, _ in attrs if name == "onerror"]


def remembering(bodies: list[bytes]) -> Answer:
    lock = threading.Lock()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        with lock:
            bodies.append(getattr(handler, "body", b""))
        status(200)(handler)

    return answer


SETTINGS = """
[web]
listen_address = "127.0.0.1:{port}"
[collect]
interval = "2s"
timeout = "2s"
[incidents]
open_after = 1
[history]
directory = "{folder}/data"
[alertmanager]
urls = ["{receiver}"]
min_severity = "info"
[[webhook]]
url_file = "{folder}/hook"
[[server]]
url = "http://127.0.0.1:{triton}"
"""


def texts(value: object) -> Iterator[str]:
    """Yield every text of decoded JSON, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


def test_a_hostile_name_is_shown_whole_everywhere_and_does_nothing(tmp_path: Path):
    port = free_ports(1)
    with fake_triton() as fake, FakeServer({}).running() as receiver:
        hostile(fake)
        alerts: list[bytes] = []
        hooks: list[bytes] = []
        receiver.routes["POST /api/v2/alerts"] = remembering(alerts)
        receiver.routes["POST /hook"] = remembering(hooks)
        (tmp_path / "hook").write_text(f"{receiver.url}/hook")
        file = tmp_path / "diag.toml"
        file.write_text(SETTINGS.format(port=port, folder=tmp_path, receiver=receiver.url, triton=fake.port))
        with serving(file, port) as service:
            until(lambda: service.json("/api/v1/incidents"), 60, "an incident")
            until(lambda: alerts and hooks, 60, "an alert and a message")
            name = service.json("/api/v1/deployments")[0]["name"]
            (incident, *_) = service.json("/api/v1/incidents")
            answers = {
                path: service.ask(path)
                for path in (
                    "/",
                    "/metrics",
                    f"/deployments/{name}",
                    "/api/v1/state",
                    f"/api/v1/incidents/{incident['id']}",
                    f"/api/v1/deployments/{name}/explanation",
                    f"/api/v1/deployments/{name}/explanation?output=html",
                    f"/api/v1/deployments/{name}/explanation?output=markdown",
                    f"/api/v1/explain?deployment={name}",
                    f"/api/v1/signals?deployment={name}&server={name}&model={quote(HOSTILE)}&signal=request_rate",
                )
            }
            refused = sum(service.samples("diag_entries_refused").values())
            log = service.log.read_text()
    for path, answer in answers.items():
        if answer.lstrip().startswith(b"<"):
            page_ = Elements()
            page_.feed(answer.decode())
            assert not page_.found, path
        assert len(answer) < 3_000_000, path
        assert b"x" * 1_000 not in answer, path
        assert b"\xe2\x80\xae" not in answer, path
    labels = [
        sample.labels
        for family in text_string_to_metric_families(answers["/metrics"].decode())
        for sample in family.samples
    ]
    assert HOSTILE in {one.get("model") for one in labels}
    assert not {one.get("model") for one in labels} & {"../../etc/passwd", "..", "a/b", "a\nb"}
    assert incident["subject"]["model"] == HOSTILE
    for bodies in (alerts, hooks):
        reported = [text for body in bodies for text in texts(json.loads(body))]
        assert any(HOSTILE in text or TAMED in text for text in reported)
    assert not [body for body in alerts if b"<img" in body]
    assert refused >= len(IMPOSSIBLE)
    assert "Traceback" not in log
    assert max(map(len, log.splitlines())) < 2_000
