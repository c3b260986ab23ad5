"""What is read of a running service's answers; whatever answers otherwise is another program, or another version.

Keys that nobody reads are left to the service. Times are Unix seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired, TypedDict
from urllib.parse import quote, urlencode

import click
import msgspec

from diagnostics import __version__
from diagnostics.errors import CollectError, UsageError
from diagnostics.settings.addresses import prefix_of
from diagnostics.wire.json_body import refuse_many
from exporters.sources.access import SourceOptions
from exporters.sources.address import parse_address
from exporters.sources.http import HttpAnswer, HttpReader, Obstacle, ReadFailure

_LAST_SECOND = 253_402_300_799.0  # of the year 9999
Time = Annotated[float, msgspec.Meta(ge=0, le=_LAST_SECOND)]


class CheckReply(TypedDict):
    """Of `/deployments/…/checks/…`."""

    account: str


class TargetAnswer(TypedDict):
    """One of `/targets`."""

    deployment: str


class _Target(TargetAnswer):
    server: str
    url: NotRequired[str]
    up: bool
    error: str
    found_by: NotRequired[str]


class _Subject(TypedDict):
    server: str
    model: NotRequired[str | None]
    gpu: NotRequired[str | int | None]
    ensemble: NotRequired[str | None]


class _Finding(TypedDict):
    id: str
    check: str
    severity: str
    summary: str
    step: NotRequired[str | None]
    subject: _Subject
    onset: Time | None
    caused_by: str | None


class _Deployment(TypedDict):
    name: str
    verdict: str
    reason: str
    answer: NotRequired[str]
    age: NotRequired[float]
    late: NotRequired[bool]
    findings: list[_Finding]


class _Fault(TypedDict):
    what: str
    reason: str


class _Incident(TypedDict):
    id: str
    fingerprint: str
    deployment: str
    check: str
    onset: Time
    seen: Time


class ServiceStateAnswer(TypedDict):
    """Of `/state`."""

    version: int
    now: Time
    targets: list[_Target]
    deployments: list[_Deployment]
    incidents: list[_Incident]
    faults: NotRequired[list[_Fault]]


class _FleetEntry(TypedDict):
    name: str
    word: str
    tone: str
    headline: str
    check: str
    about: str
    statistic: str
    seconds: float | None
    objective: str
    missed: bool
    per_second: float | None
    since: Time | None
    worker: int


class _Worker(TypedDict):
    worker: int
    reported: Time | None
    silent: bool
    deployments: int


class FleetAnswer(TypedDict):
    """Of `/fleet`."""

    now: Time
    workers: list[_Worker]
    deployments: list[_FleetEntry]


class _Period(TypedDict):
    seconds: float


class _Events(TypedDict):
    total: float


class _Budget(TypedDict):
    left: float | None


class _Slo(TypedDict):
    name: str
    objective: float
    sli: dict[str, Any] | None
    period: _Period
    events: _Events
    budget: _Budget
    alerts: list[Any]


class Slos(TypedDict):
    """Of `/slos`."""

    slos: list[_Slo]


VARIABLE = "DIAG_WEB__LISTEN_ADDRESS"
DEFAULT = "127.0.0.1:9177"
# A service that judges the past takes seconds before it answers.
PATIENCE = 30.0
_START = "start one with diag serve, name it with --url, or name a SOURCE"
_HINTS = {
    Obstacle.CLOSED: _START,
    Obstacle.NO_HOST: _START,
    Obstacle.PROTOCOL: "if it serves TLS, say so: --url https://…, with --ca-file where its authority is your own",
}
# Whoever gives no reason is a proxy, or another program.
ELSEWHERE = f"give the address of diag serve {__version__}, with the path of its web.route_prefix"
Command = Callable[..., object]


def url_option(command: Command) -> Command:
    """Give `command` the option that says where the service is."""
    reported = f"The running service, where no SOURCE is given.  [default: ${VARIABLE} or {DEFAULT}]"
    return click.option("--url", metavar="URL", help=reported)(command)


class RunningService:
    """A service that answers questions.

    Attributes:
        url: where it is, without a trailing slash and credentials.

    """

    def __init__(self, url: str | None, options: SourceOptions) -> None:
        """Know where to ask; nothing is asked yet.

        Args:
            url: as given; None takes the environment's, else the default.
            options: credentials and how to trust it; its timeout is prolonged by `PATIENCE`.

        Raises:
            UsageError: the URL is none.

        """
        address = parse_address(url or _beside(os.environ))
        self.url = str(address)
        patient = replace(options, timeout=options.read_timeout + PATIENCE)
        self._options = patient.for_user(address.user)
        self._reader = HttpReader(self._options)

    def read(self, path: str, **query: str | float | Sequence[str] | None) -> bytes:
        """Return the body of what the service answers to a GET of `/api/v1` and `path`; raises as `answer` does."""
        return self.answer(path, **query).body

    def answer(self, path: str, **query: str | float | Sequence[str] | None) -> HttpAnswer:
        """Return what the service answers to a GET of `/api/v1` and `path`.

        Raises:
            CollectError: it does not answer, or refuses.

        """
        given = {name: value for name, value in query.items() if value is not None}
        tail = f"?{urlencode(given, doseq=True)}" if given else ""
        try:
            return self._reader.answer("GET", f"{self.url}/api/v1{path}{tail}")
        except ReadFailure as failure:
            away = failure.obstacle in (Obstacle.CLOSED, Obstacle.NO_HOST)
            what = f"no service answers: {failure.reason}" if away else failure.reason
            raise CollectError(what, where=self.url, hint=self._next_step(failure)) from None

    def _next_step(self, failure: ReadFailure) -> str:
        if failure.obstacle is Obstacle.DENIED:
            return self._options.when_denied
        return ELSEWHERE if failure.reason == "HTTP 404" else _HINTS.get(failure.obstacle, "")

    def json(self, path: str, shape: Any, **query: str | float | Sequence[str] | None) -> Any:
        """Return a JSON answer, whole; `shape` is the type of what is read of it.

        Raises:
            CollectError: it does not answer, refuses, or is another program or version.

        """
        body = self.read(path, **query)
        try:
            refuse_many(body)
            answer = msgspec.json.decode(body)  # refuses numbers that no other JSON writer could repeat
            msgspec.convert(answer, shape)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise self.other_program() from None
        return answer

    def other_program(self) -> CollectError:
        """Return the error to raise where an answer is none of this `diag serve`, but perhaps of a Prometheus."""
        return CollectError("answers, but not as diag serve does", where=self.url, hint=ELSEWHERE)

    def deployment(self, name: str | None) -> str:
        """Return the name of the deployment that is meant; None means the only one.

        Raises:
            UsageError: there are several.
            CollectError: there is none, or the service does not answer.

        """
        if name is not None:
            return name
        targets: list[TargetAnswer] = self.json("/targets", list[TargetAnswer])
        names = list(dict.fromkeys(one["deployment"] for one in targets))
        if len(names) == 1:
            return names[0]
        if not names:
            raise CollectError("nothing was read yet", where=self.url, hint="ask again in a few seconds")
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise UsageError(f"the service watches {len(names)} deployments", hint=f"name one: --deployment, of {shown}")


def path_of(deployment: str) -> str:
    """Return where a deployment is found below `/api/v1`."""
    return f"/deployments/{quote(deployment, safe='')}"


def _beside(environment: Mapping[str, str]) -> str:
    """Return where a service with the settings of this environment is asked from the same machine."""
    host, _, port = (environment.get(VARIABLE) or DEFAULT).rpartition(":")
    below = prefix_of(environment.get("DIAG_WEB__EXTERNAL_URL", ""), environment.get("DIAG_WEB__ROUTE_PREFIX"))
    near = "127.0.0.1" if host in ("", "0.0.0.0", "[::]") else host  # noqa: S104 - compared, not bound
    return f"http://{near}:{port}{below.routes}"
