"""Asks the HTTP API that Prometheus, Thanos, Mimir and VictoriaMetrics have in common; every failure is one line.

Queries are sent as forms (POST), so that their length does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

from diagnostics.errors import CollectError, MalformedBody, UsageError
from diagnostics.wire.prometheus_answer import Answer, parse_answer, parse_values
from exporters.sources.access import DEFAULT_TIMEOUT, SourceOptions
from exporters.sources.failure import Obstacle, ReadFailure, plain
from exporters.sources.http import HttpReader
from exporters.sources.prometheus_address import PrometheusAddress

# A query over hours of a fleet reads from disk; Prometheus itself gives up after two minutes.
TIMEOUT_SECONDS = 30.0
# Five minutes of 500 servers with 20 models each are some 150 MB of JSON.
MAX_ANSWER_BYTES = 512 * 2**20
_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
# What a query that asks for too much is refused with: limits (422), timeouts (503, 504), a proxy's size limit (413).
_TOO_MUCH = frozenset({413, 422, 503, 504})


class TooMuch(CollectError):
    """The store could not answer, but may answer a smaller question."""


class PrometheusApi:
    """One store. It may be used from several threads."""

    def __init__(self, address: PrometheusAddress, options: SourceOptions) -> None:
        """Prepare to ask.

        Args:
            address: where the store is; its credentials win over those of `options`.
            options: how it is reached; a timeout that nobody chose is 30 seconds.

        """
        timeout = TIMEOUT_SECONDS if options.timeout == DEFAULT_TIMEOUT else options.timeout
        reached = replace(options.for_user(address.user), timeout=timeout, max_body=MAX_ANSWER_BYTES)
        self.address, self._timeout = address, timeout
        self.options, self._reader = reached, HttpReader(reached)

    def clock(self) -> float:
        """Return the store's own Unix seconds: a reader's clock may be wrong."""
        answer = self.instant("time()")
        if len(answer.series) != 1:
            raise MalformedBody("does not tell its time", where=str(self.address))
        return answer.series[0].values[0]

    def instant(self, query: str, at: float | None = None) -> Answer:
        """Return what a query gives at Unix second `at`, at the store's own time by default.

        A query with a range selector gives the samples as they were scraped.

        Raises:
            TooMuch: it was refused or not answered in time, and a smaller one may be.
            UsageError: the store cannot read the query.
            CollectError: it does not answer, or not as this API does.

        """
        return self._ask("query", {"query": query} | ({} if at is None else {"time": _seconds(at)}))

    def ranged(self, query: str, start: float, end: float, step: float) -> Answer:
        """Return what a query gives every `step` seconds from one Unix second to another; raises as `instant`."""
        span = {"start": _seconds(start), "end": _seconds(end), "step": _seconds(step)}
        return self._ask("query_range", {"query": query, **span})

    def samples(self, selector: str, start: float, end: float) -> Answer:
        """Return the samples that were scraped from one Unix second to another; raises as `instant`."""
        return self.instant(f"{selector}[{max(round((end - start) * 1000), 1)}ms]", at=end)

    def label_values(self, label: str, selector: str, start: float, end: float) -> tuple[str, ...]:
        """Return the values that a label of the series of a span has, no sample read; raises as `instant`."""
        form = urlencode({"match[]": selector, "start": _seconds(start), "end": _seconds(end)})
        url = f"{self.address.base}/api/v1/label/{label}/values?{form}"
        try:
            return parse_values(self._reader.read("GET", url, accept=_JSON))
        except ReadFailure as failure:
            raise self._refusal(failure) from None
        except MalformedBody as error:
            raise MalformedBody(error.what, where=str(self.address), hint=_hint_in(error)) from None

    def _ask(self, endpoint: str, form: Mapping[str, str]) -> Answer:
        try:
            answer = parse_answer(self._read(endpoint, urlencode({**form, "timeout": f"{self._timeout:g}s"})))
        except ReadFailure as failure:
            raise self._refusal(failure) from None
        except MalformedBody as error:
            raise MalformedBody(error.what, where=str(self.address), hint=_hint_in(error)) from None
        return replace(answer, warnings=tuple(plain(self.options.scrub(text)) for text in answer.warnings))

    def _read(self, endpoint: str, form: str) -> bytes:
        url = f"{self.address.base}/api/v1/{endpoint}"
        try:
            return self._reader.read("POST", url, form.encode(), _JSON, _FORM)
        except ReadFailure as failure:
            if failure.status != 405:
                raise
        # A proxy for readers may let GET pass alone.
        return self._reader.read("GET", f"{url}?{form}", accept=_JSON)

    def _refusal(self, failure: ReadFailure) -> CollectError | UsageError:
        where = str(self.address)
        if failure.status == 400:
            return UsageError(f"the query was refused ({failure.reason})", where=where, hint="look at the selector")
        if failure.status == 404:
            hint = "give the address under which /api/v1/query answers (Mimir: …/prometheus)"
            return CollectError("has no Prometheus API (HTTP 404)", where=where, hint=hint)
        if failure.status in _TOO_MUCH or failure.obstacle is Obstacle.LATE or "larger than" in failure.reason:
            return TooMuch(f"the query was not answered ({failure.reason})", where=where, hint=_SMALLER)
        return CollectError(failure.reason, where=where)


_SMALLER = "ask for less with --since or a selector, or allow more with --timeout"


def _hint_in(error: MalformedBody) -> str:
    return str(error).partition(f"{error.what}; ")[2]


def _seconds(value: float) -> str:
    return f"{value:.3f}"
