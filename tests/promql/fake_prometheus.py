"""A Prometheus of the tests' own: it holds samples, and answers the few queries that the product asks."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from diagnostics.wire.exposition import ExpositionReader, SeriesLayout
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sinks.exposition import Row

Labels = tuple[tuple[str, str], ...]
Samples = list[tuple[float, float]]
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')
_RANGE = re.compile(r"(\{.*\})\[(\d+)ms\]", re.DOTALL)
_VALUES = re.compile(r"/api/v1/label/(\w+)/values")


@dataclass
class FakePrometheus:
    """What it holds, and how it misbehaves.

    Attributes:
        now: its clock, Unix seconds.
        most: samples beyond which it refuses a query, as Prometheus does; None for no limit.
        broken: a span, in Unix seconds, that it never gives; None for none.
        warnings: said with every answer that has samples.
        refuse: given the query, an HTTP status and a body to answer with instead; None answers as usual.

    """

    now: float = 0.0
    series: dict[Labels, Samples] = field(default_factory=dict)
    most: int | None = None
    broken: tuple[float, float] | None = None
    warnings: Sequence[str] = ()
    refuse: Callable[[str], tuple[int, bytes] | None] = lambda _: None
    queries: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    forms: list[Mapping[str, str]] = field(default_factory=list)
    only_get: bool = False
    port: int = 0
    _known: dict[tuple[object, ...], tuple[SeriesLayout, list[Samples]]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"prometheus+http://127.0.0.1:{self.port}"

    def add(self, labels: Mapping[str, str], samples: Iterable[tuple[float, float]]) -> None:
        kept = self.series.setdefault(tuple(sorted(labels.items())), [])
        kept.extend(samples)
        self.now = max([self.now, *(at for at, _ in kept[-1:])])

    def scrape(self, at: float, body: bytes, reader: ExpositionReader, **target: str) -> None:
        """Take one page of metrics as a target's scrape."""
        snapshot = reader.read(body)
        key = (id(snapshot.layout), *target.values())
        if key not in self._known:
            named = ({"__name__": one.name, **one.labels, **target} for one in snapshot.layout.series)
            kept = [self.series.setdefault(tuple(sorted(labels.items())), []) for labels in named]
            self._known[key] = snapshot.layout, kept
        for samples, value in zip(self._known[key][1], snapshot.values, strict=True):
            samples.append((at, value))
        self.now = max(self.now, at)

    def scrape_all(self, scrapes: Iterable[Scrape], **target: str) -> None:
        """Take every page of metrics of some recorded scrapes."""
        readers: dict[str, ExpositionReader] = {}
        for one in sorted(scrapes, key=lambda one: one.at):
            if one.kind is BodyKind.METRICS and one.body is not None:
                reader = readers.setdefault(one.server, ExpositionReader())
                self.scrape(one.at, one.body, reader, **{"job": "triton", "instance": one.server, **target})

    def scrape_rows(self, at: float, rows: Iterable[Row], **target: str) -> None:
        """Take what a service exports as its scrape."""
        for family, labels, value in rows:
            named = {name: text for name, text in zip(family.labels, labels, strict=True) if text}
            self.add(
                {"__name__": family.name, **named, "job": "diag", "instance": "diag:9177", **target}, [(at, value)]
            )

    @contextlib.contextmanager
    def running(self) -> Iterator[FakePrometheus]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, query: str, at: float) -> tuple[int, bytes]:
        self.queries.append(query)
        if (refused := self.refuse(query)) is not None:
            return refused
        if query == "time()":
            return 200, _body("scalar", [self.now, str(self.now)], ())
        ranged = _RANGE.fullmatch(query)
        if ranged is None:
            return 400, json.dumps({"status": "error", "errorType": "bad_data", "error": "parse error"}).encode()
        found = self._select(ranged[1], at - float(ranged[2]) / 1000, at)
        lost = self.broken is not None and at - float(ranged[2]) / 1000 <= self.broken[0] and self.broken[1] <= at
        if lost or (self.most is not None and sum(len(samples) for _, samples in found) > self.most):
            text = "query processing would load too many samples into memory in query execution"
            return 422, json.dumps({"status": "error", "errorType": "execution", "error": text}).encode()
        result = [{"metric": dict(labels), "values": [[t, str(v)] for t, v in samples]} for labels, samples in found]
        return 200, _body("matrix", result, self.warnings)

    def values(self, label: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        self.queries.append(f"{label}: {form['match[]']}")
        found = self._select(form["match[]"], float(form["start"]), float(form["end"]))
        values = {dict(labels)[label] for labels, _ in found if label in dict(labels)}
        return 200, json.dumps({"status": "success", "data": sorted(values)}).encode()

    def _select(self, selector: str, start: float, end: float) -> list[tuple[Labels, Samples]]:
        matchers = [(name, how, _unquoted(text)) for name, how, text in _MATCHER.findall(selector)]
        found = []
        for labels, samples in self.series.items():
            named = dict(labels)
            if all(_matches(named.get(name, ""), how, text) for name, how, text in matchers):
                inside = [(at, value) for at, value in samples if start <= at <= end + 1e-6]
                if inside:
                    found.append((labels, inside))
        return found

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

            def do_GET(self) -> None:
                self._answer(self.path.partition("?")[2])

            def _answer(self, text: str) -> None:
                form = {name: values[0] for name, values in parse_qs(text).items()}
                fake.headers.append(dict(self.headers))
                fake.forms.append(form)
                if values := _VALUES.match(self.path):
                    status, body = fake.values(values[1], form)
                else:
                    status, body = fake.answer(form["query"], float(form.get("time", fake.now)))
                if self.command == "POST" and fake.only_get:
                    status, body = 405, b""
                with contextlib.suppress(ConnectionError):  # whoever asked may have given up
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        return Handler


def _body(kind: str, result: object, warnings: Sequence[str]) -> bytes:
    stated = {"warnings": list(warnings)} if warnings else {}
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}, **stated}).encode()


def _matches(value: str, how: str, text: str) -> bool:
    same = bool(re.fullmatch(text, value)) if how.endswith("~") else value == text
    return same if how in ("=", "=~") else not same


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text)
