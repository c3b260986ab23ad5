"""What perf_analyzer prints of a load test: its table, or the CSV of `-f`. The server's part becomes counters.

Sources: triton-inference-server/perf_analyzer, `inference_profiler.cc` and `report_writer.cc`. Times are microseconds.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from diagnostics import names
from diagnostics.errors import MalformedBody
from diagnostics.wire.json_body import number

MICROSECOND = 1e-6
# What `-f` leaves out: how many requests stand behind a row. perf_analyzer measures for 5 s unless told otherwise.
ASSUMED_SECONDS = 5.0
_NUMBER = r"(\d{1,30}(?:\.\d{1,30})?)"
_LOAD = re.compile(rf"^Request (concurrency|rate): {_NUMBER}", re.IGNORECASE)
_BATCH = re.compile(rf"^\s*Batch size: {_NUMBER}")
_VALUE = re.compile(rf"^\s*([A-Za-z][A-Za-z0-9 ]*?): {_NUMBER}(?: (?:infer/sec|usec))?")
_PARTS = re.compile(rf"(overhead|queue|compute input|compute infer|compute output|compute) {_NUMBER} usec")
_MEMBER = re.compile(r"^\s*(\S+), version: (\d*)\s*$")
_FAMILIES: Mapping[str, str] = {
    "successful request count": names.REQUEST_SUCCESS,
    "inference count": names.INFERENCE_COUNT,
    "execution count": names.EXECUTION_COUNT,
    "avg request latency": names.REQUEST_DURATION,
    "queue": names.QUEUE_DURATION,
    "compute input": names.INPUT_DURATION,
    "compute infer": names.INFER_DURATION,
    "compute": names.INFER_DURATION,
    "compute output": names.OUTPUT_DURATION,
}
_DURATIONS = frozenset(
    {names.REQUEST_DURATION, names.QUEUE_DURATION, names.INPUT_DURATION, names.INFER_DURATION, names.OUTPUT_DURATION}
)
_CSV_COLUMNS: Mapping[str, str] = {
    "server queue": "queue",
    "server compute input": "compute input",
    "server compute infer": "compute infer",
    "server compute output": "compute output",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTest:
    """One load of a test.

    Attributes:
        load: as it was printed, as in `concurrency 4`.
        seconds: how long it was measured.
        requests: how many were measured.
        client_seconds: mean time of a request as the client saw it.
        server_seconds: mean time of a request at the server; None when it was not read.
        counters: per model and version ("" where it was not printed) the increase of each of Triton's families.

    """

    load: str
    seconds: float
    requests: float
    client_seconds: float
    server_seconds: float | None
    counters: Mapping[tuple[str, str], Mapping[str, float]]

    def page(self, name: str, *, start: bool, whole: bool = True) -> bytes:
        """Return a metrics page of the test's start or end.

        Args:
            name: of the model that was called, which is not printed.
            start: whether nothing is counted yet.
            whole: whether that model has a row, beside those that it is composed of.

        """
        return "".join(
            f'{family}{{model="{model or name}",version="{version or 1}"}} {0 if start else value:.6f}\n'
            for (model, version), row in self.counters.items()
            if model or whole
            for family, value in row.items()
        ).encode()


def parse_perf_analyzer(body: bytes) -> tuple[LoadTest, ...]:
    """Return the loads of a test, in the order they were printed.

    Raises:
        MalformedBody: it holds no load with a throughput and a latency.

    """
    text = body.decode("utf-8", "replace")
    try:
        found = tuple(_of_csv(text) if "Inferences/Second," in text[:200] else _of_table(text))
    except csv.Error as error:
        raise MalformedBody(f"is no table of perf_analyzer's ({error})") from None
    if not found:
        raise MalformedBody("is perf_analyzer's output without a finished measurement", hint="let it run to its end")
    return found


def _of_csv(text: str) -> Iterator[LoadTest]:
    for row in csv.DictReader(io.StringIO(text)):
        values = {key.strip().lower(): number(value) for key, value in row.items() if isinstance(key, str)}
        rate = values.get("inferences/second") or 0.0
        spent = {ours: values.get(column) for column, ours in _CSV_COLUMNS.items()}
        known = {ours: value for ours, value in spent.items() if value is not None}
        client = values.get("avg latency") or values.get("p50 latency")
        if rate <= 0 or not client:
            continue
        load, requests, server = next(iter(row)), rate * ASSUMED_SECONDS, sum(known.values())
        printed = {"successful request count": requests, "avg request latency": server, **known}
        yield LoadTest(
            load=f"{load.lower()} {row[load]}",
            seconds=ASSUMED_SECONDS,
            requests=requests,
            client_seconds=client * MICROSECOND,
            server_seconds=server * MICROSECOND if known else None,
            counters={("", ""): _row(printed)} if known else {},
        )


def _of_table(text: str) -> Iterator[LoadTest]:
    batch, load, lines = 1.0, "", list[str]()
    for line in text.splitlines():
        if stated := _BATCH.match(line):
            batch = max(float(stated[1]), 1.0)
        if begun := _LOAD.match(line):
            yield from _block(load, lines, batch)
            load, lines = f"{begun[1].lower()} {begun[2]}", []
        elif load and line.startswith("Inferences/Second"):
            break
        else:
            lines.append(line)
    yield from _block(load, lines, batch)


def _block(load: str, lines: list[str], batch: float) -> Iterator[LoadTest]:
    client: dict[str, float] = {}
    rows: dict[tuple[str, str], dict[str, float]] = {}
    into = client
    for line in lines:
        if member := _MEMBER.match(line):
            into = rows.setdefault((member[1], member[2]), {})
        elif line.strip() == "Server:":
            into = rows.setdefault(("", ""), {})
        elif value := _VALUE.match(line):
            into.setdefault(value[1].lower(), float(value[2]))
            into |= {part: float(spent) for part, spent in _PARTS.findall(line)} if into is not client else {}
    requests, rate = client.get("request count", 0.0), client.get("throughput", 0.0) / batch
    latency = client.get("avg latency") or client.get("p50 latency")
    if not load or requests <= 0 or rate <= 0 or not latency:
        return
    server = rows.get(("", ""), {}).get("avg request latency")
    yield LoadTest(
        load=load,
        seconds=requests / rate,
        requests=requests,
        client_seconds=latency * MICROSECOND,
        server_seconds=None if server is None else server * MICROSECOND,
        counters={key: row for key, printed in rows.items() if (row := _row(printed))},
    )


def _row(printed: Mapping[str, float]) -> dict[str, float]:
    """Return the families that printed means and counts are the increase of; none without a count."""
    requests = printed.get("successful request count") or printed.get("inference count") or 0.0
    if requests <= 0:
        return {}
    row = {names.REQUEST_SUCCESS: requests}
    for key, value in printed.items():
        family = _FAMILIES.get(key)
        if family is not None:
            row[family] = value * requests if family in _DURATIONS else value
    return row
