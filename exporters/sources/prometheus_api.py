"""`prometheus+http://host:9090/prefix?selector={job="triton"}`, taken apart."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from threading import Timer
from urllib.parse import parse_qs, urlencode, urlsplit

from diagnostics.errors import CollectError, MalformedBody, UsageError
from diagnostics.wire.prometheus_answer import QueryResult, TooManySamples, parse_answer, parse_values
from exporters.sources.access import STORE_TIMEOUT, SourceOptions
from exporters.sources.address import parse_address, safe
from exporters.sources.http import HttpReader, Obstacle, ReadFailure, plain

PREFIX = "prometheus+"
_FORM = 'give prometheus+http://host:9090 or prometheus+https://host/prefix?selector={job="triton"}'
_STRING = r'(?:"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\]|\\.)*+\'|`[^`]*`)'
_MATCHER = rf"\s*+[a-zA-Z_][a-zA-Z0-9_]*\s*+(?:=~|!~|!=|=)\s*+{_STRING}\s*+"
_ONE = re.compile(_MATCHER)
_LABEL = re.compile(r"\w+")
_OF_A_SCRAPE = frozenset({"job", "instance", "pod", "namespace", "container", "service", "endpoint", "node"})
_MATCHERS = rf"{_MATCHER}(?:,{_MATCHER})*+,?\s*+"
_SELECTOR = re.compile(rf"\s*+(?:\{{(?P<inside>{_MATCHERS})\}}|(?P<bare>{_MATCHERS}))\s*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusAddress:
    """Where a store is, and of what in it is asked.

    Attributes:
        base: the URL before `/api/v1`, without credentials.
        matchers: what a series must match besides its name, as in `job="triton"`; none for everything.
        user: `name:password` of the URL, or None.

    """

    base: str
    matchers: tuple[str, ...] = ()
    user: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{PREFIX}{self.base}"

    def selector(self, *matchers: str) -> str:
        """Return a selector of these matchers and the address's own."""
        return "{" + ",".join((*matchers, *self.matchers)) + "}"

    def beside(self) -> PrometheusAddress:
        """Return the address of what else is stored of the same place: without matchers of one scrape's labels."""
        return replace(self, matchers=tuple(one for one in self.matchers if _LABEL.findall(one)[0] not in _OF_A_SCRAPE))


def matcher(label: str, value: str, *, sign: str = "=") -> str:
    """Return a matcher of a label in PromQL, as `model="safety"`, whatever is in the value."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{label}{sign}"{escaped}"'


def is_prometheus(source: str) -> bool:
    """Return whether a source is written as a Prometheus-compatible store."""
    return source.startswith(PREFIX)


def parse_prometheus(source: str) -> PrometheusAddress:
    """Return the parts of a store's address.

    Raises:
        UsageError: it is not one; the message shows no password.

    """
    text, question, query = source.removeprefix(PREFIX).partition("?")
    if not text.startswith(("http://", "https://")):
        raise UsageError("is no address of a Prometheus", where=safe(source), hint=_FORM)
    try:
        address, fragment = parse_address(text), urlsplit(text).fragment
    except UsageError as error:
        raise UsageError(error.what, where=safe(source), hint=_FORM) from None
    if fragment:
        raise UsageError("holds a #", where=safe(source), hint=_FORM)
    base = f"{address.scheme}://{address.netloc()}{address.path.removesuffix('/api/v1')}"
    matchers = _matchers(query, base) if question else ()
    return PrometheusAddress(base=base, matchers=matchers, user=address.user)


def _matchers(query: str, where: str) -> tuple[str, ...]:
    # A + in a regular expression is meant as one: these are not forms.
    requested = parse_qs(query.replace("+", "%2B"), keep_blank_values=True)
    if set(requested) != {"selector"} or len(requested["selector"]) != 1:
        raise UsageError("takes ?selector={…} and nothing else", where=where, hint=_FORM)
    written = requested["selector"][0]
    match = _SELECTOR.fullmatch(written)
    if match is None:
        raise UsageError(f"cannot read the selector {written[:80]!r}", where=where, hint='write {job="triton"}')
    return tuple(one.strip() for one in _ONE.findall(match["inside"] or match["bare"]))


# A store that is slow with question after question is left alone after as many timeouts: two minutes in all.
PATIENCE_TIMEOUTS = 4.0
# The store gives up before its answer is given up here: its refusal says why, and that it lives.
_OF_THE_STORE = 0.9
# The year 5138: milliseconds instead of seconds are later.
_LATEST = 1e11
# Whoever waits for longer wants to know what for.
SILENT_SECONDS = 5.0
# Five minutes of 500 servers with 20 models each are some 150 MB of JSON.
MAX_ANSWER_BYTES = 256 * 2**20
_JSON, _FORM_TYPE = "application/json", "application/x-www-form-urlencoded"
# What a query that asks for too much is refused with: limits (422), the store's timeout (503), a proxy's limit (413).
_TOO_MUCH = frozenset({413, 422, 503})
_GATEWAY_TIMEOUT = 504
Announce = Callable[[str], None]


class TooMuch(CollectError):
    """The store could not answer, but may answer a smaller question."""


class Late(CollectError):
    """The store said nothing in time: it may hang, and a smaller question would wait as long."""


class PrometheusApi:
    """One store. It may be used from several threads."""

    def __init__(
        self,
        address: PrometheusAddress,
        options: SourceOptions,
        *,
        patience: float = PATIENCE_TIMEOUTS,
        announce: Announce | None = None,
        less: str = "--since or a selector",
    ) -> None:
        """Prepare to ask.

        Args:
            address: where the store is; its credentials win over those of `options`.
            options: how it is reached; a timeout that nobody chose is 30 seconds.
            patience: for how many timeouts, from now on, all questions together are asked.
            announce: called with what is waited for where an answer takes long.
            less: the options by which whoever asks asks for less.

        """
        timeout = STORE_TIMEOUT if options.timeout is None else options.timeout
        self.options = replace(options.for_user(address.user), timeout=timeout, max_body=MAX_ANSWER_BYTES)
        self.address, self._announce, self._in_all, self._less = address, announce, patience * timeout, less
        self._until = time.monotonic() + self._in_all

    @property
    def left(self) -> float:
        """The seconds that are left for questions; none or less when no more are asked."""
        return self._until - time.monotonic()

    def beside(self) -> PrometheusApi:
        """Return the store, asked of what else is stored of the same place, within the same time."""
        other = PrometheusApi(self.address.beside(), self.options, announce=self._announce, less=self._less)
        other._in_all, other._until = self._in_all, self._until
        return other

    def announce(self, text: str) -> None:
        """Wake whoever waits."""
        if self._announce is not None:
            self._announce(text)

    def clock(self) -> float:
        """Return the store's own Unix seconds: a reader's clock may be wrong."""
        answer = self.instant("time()")
        now = answer.series[0].values[-1] if len(answer.series) == 1 else inf
        if not 0 < now < _LATEST:
            hint = "look at the store's clock, and whether /api/v1/query answers at this address"
            raise MalformedBody("does not tell its time", where=str(self.address), hint=hint)
        return now

    def instant(self, query: str, at: float | None = None) -> QueryResult:
        """Return what a query gives at Unix second `at`, at the store's own time by default.

        A query with a range selector gives the samples as they were scraped.

        Raises:
            TooMuch: it was refused, and a smaller one may be answered.
            Late: the store said nothing in time, or the time for all questions is over.
            UsageError: the store cannot read the query.
            CollectError: it does not answer, or not as this API does.

        """
        return self._ask("query", {"query": query} | ({} if at is None else {"time": _seconds(at)}))

    def ranged(self, query: str, start: float, end: float, step: float) -> QueryResult:
        """Return what a query gives every `step` seconds from one Unix second to another; raises as `instant`."""
        span = {"start": _seconds(start), "end": _seconds(end), "step": _seconds(step)}
        # VictoriaMetrics moves the steps of what it may keep for others.
        return self._ask("query_range", {"query": query, **span, "nocache": "1"})

    def samples(self, selector: str, start: float, end: float) -> QueryResult:
        """Return the samples that were scraped from one Unix second to another; raises as `instant`."""
        return self.instant(f"{selector}[{max(round((end - start) * 1000), 1)}ms]", at=end)

    def label_values(self, label: str, selector: str, start: float, end: float) -> tuple[str, ...]:
        """Return the values that a label of the series of a span has, no sample read; raises as `instant`."""
        form = urlencode({"match[]": selector, "start": _seconds(start), "end": _seconds(end)})
        url = f"{self.address.base}/api/v1/label/{label}/values?{form}"
        with self._reported(f"the values of {label}") as reader:
            return parse_values(reader.read("GET", url, accept=_JSON))

    def _ask(self, endpoint: str, form: Mapping[str, str]) -> QueryResult:
        with self._reported(plain(form["query"], _SHOWN)) as reader:
            # Prometheus reads no fractions of a second.
            timeout = max(round(_OF_THE_STORE * min(self.options.read_timeout, self.left) * 1000), 1)
            answer = parse_answer(self._read(reader, endpoint, urlencode({**form, "timeout": f"{timeout}ms"})))
        return replace(answer, warnings=tuple(plain(self.options.scrub(text)) for text in answer.warnings))

    @contextmanager
    def _reported(self, question: str) -> Iterator[HttpReader]:
        """Give a reader for one question; what goes wrong with it is reported as this store's."""
        where, left = str(self.address), self.left
        if left <= 0:
            raise self._over(question)
        timeout = min(self.options.read_timeout, left)
        waiting = Timer(
            SILENT_SECONDS, self.announce, [f"waiting up to {round(timeout, 1):g} s for {where}: {question}"]
        )
        waiting.daemon = True
        waiting.start()
        try:
            yield HttpReader(replace(self.options, timeout=timeout))
        except ReadFailure as failure:
            raise self._refusal(failure, question) from None
        except TooManySamples as error:
            raise TooMuch(error.what, where=where, hint=_SMALLER.format(self._less)) from None
        except MalformedBody as error:
            raise MalformedBody(self.options.scrub(error.what), where=where, hint=error.hint) from None
        finally:
            waiting.cancel()

    def _read(self, reader: HttpReader, endpoint: str, form: str) -> bytes:
        url = f"{self.address.base}/api/v1/{endpoint}"
        try:
            return reader.read("POST", url, form.encode(), _JSON, _FORM_TYPE)
        except ReadFailure as failure:
            if failure.status != 405:
                raise
        # A proxy for readers may let GET pass alone.
        return reader.read("GET", f"{url}?{form}", accept=_JSON)

    def _over(self, question: str) -> Late:
        text = f"the {self._in_all:g} s for all questions are over before an answer to {question}"
        return Late(text, where=str(self.address), hint=_MORE.format(self._less))

    def _refusal(self, failure: ReadFailure, question: str) -> CollectError | UsageError:
        where = str(self.address)
        if failure.reason == "HTTP 400":
            hint = "look at the address: a port that speaks TLS answers so to http://"
            return CollectError("refuses the query without a reason (HTTP 400)", where=where, hint=hint)
        if failure.status == 400:
            hint = "look at the selector" if self.address.matchers else "look at what is asked"
            return UsageError(f"the query was refused ({failure.reason})", where=where, hint=hint)
        if failure.status == 404:
            hint = "give the address under which /api/v1/query answers (Mimir: …/prometheus)"
            return CollectError("has no Prometheus API (HTTP 404)", where=where, hint=hint)
        if failure.obstacle is Obstacle.LATE and self.left <= 0:
            # The last question had only what the others left.
            return self._over(question)
        if failure.obstacle is Obstacle.LATE or failure.status == _GATEWAY_TIMEOUT:
            return Late(f"{failure.reason} to {question}", where=where, hint=_MORE.format(self._less))
        if failure.status in _TOO_MUCH or "larger than" in failure.reason:
            hint = _SMALLER.format(self._less)
            return TooMuch(f"the query was not answered ({failure.reason})", where=where, hint=hint)
        return CollectError(failure.reason, where=where, hint=_next_step(failure, self.options))


_SHOWN = 80
_SMALLER = "ask for less with {}, or allow more with --timeout"
_MORE = f"look at the store's load, {_SMALLER}"


def _next_step(failure: ReadFailure, options: SourceOptions) -> str:
    if failure.obstacle is Obstacle.DENIED:
        return f"{options.when_denied} (X-Scope-OrgID:… names a tenant)"
    if failure.status is None:
        # What is wrong with TLS says by itself what to do.
        return "" if "TLS" in failure.reason else _BY_OBSTACLE.get(failure.obstacle, "")
    if failure.status < 400:
        return "give the address that answers by itself, or credentials for the login before it"
    return "look at the store's log, or ask again later"


_BY_OBSTACLE = {
    Obstacle.NO_HOST: "look at the host's name",
    Obstacle.CLOSED: "look whether the store runs, and at its port",
    Obstacle.PROTOCOL: "look at the address (http or https, host, port) and at what stands before the store",
    Obstacle.ANSWER: "look at what stands before the store",
}


def _seconds(value: float) -> str:
    return f"{value:.3f}"
