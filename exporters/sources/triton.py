"""What a server's closed or unfound ports hide, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from diagnostics.diagnosis.explanation import BlindSpot
from diagnostics.diagnosis.port_notes import hidden_by
from diagnostics.errors import CollectError, MalformedBody, UsageError
from diagnostics.window.unanswered import INFERENCE_PORT, METRICS_PORT
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.records import BodyKind
from diagnostics.wire.server import parse_index
from exporters.sources.access import SourceOptions
from exporters.sources.address import DEFAULT_HTTP_PORT, Address, parse_address, safe
from exporters.sources.host import find_server, listening_ports
from exporters.sources.http import HttpReader, Obstacle, ReadFailure
from exporters.sources.kubernetes_targets import PREFIX, service_urls
from exporters.sources.parallel import DeadlineExecutor
from exporters.sources.probe import OtherServer, first_found, probe_grpc, probe_http, probe_metrics
from exporters.sources.triton_grpc import NOT_INSTALLED
from exporters.sources.triton_http import HttpApi
from exporters.sources.triton_server import Api, Metrics, TritonServer
from exporters.sources.wrong_scheme import other_scheme

_METRICS_OFF = "start the server with --allow-metrics=true, or say where its metrics are with --metrics-url"
_CLOSED = "open the HTTP or gRPC port to this machine"
_ENCLOSED = "give its configurations with --repository DIR: Dynamo starts this Triton without ports"
_Failures = Mapping[str, Mapping[str, ReadFailure]]


def blind_spots_of(
    server: str, found: Set[str], failures: _Failures, when_denied: str, *, enclosed: bool = False
) -> tuple[BlindSpot, ...]:
    """Return what cannot be read.

    Args:
        server: its name.
        found: the endpoints found, of `http`, `grpc` and `metrics`.
        failures: why others were not, by endpoint and `host:port`.
        when_denied: what to do where one wants other credentials.
        enclosed: whether it is inside another server, which opens none of its ports.

    """
    spots = []
    if "metrics" not in found:
        denied = _denied(failures["metrics"])
        spots.append(_no_metrics(server, failures, when_denied if denied else _METRICS_OFF))
    if not {"http", "grpc"} & found:
        denied = _denied(failures["http"]) or _denied(failures["grpc"])
        closed = _ENCLOSED if enclosed else _CLOSED
        spots.append(_no_api(server, failures, when_denied if denied and not enclosed else closed))
    return tuple(spots)


def notes_of(found: Set[str], failures: _Failures, given: str | None) -> tuple[str, ...]:
    """Return what was not as expected, but hides nothing.

    Args:
        found: the endpoints found, of `http`, `grpc` and `metrics`.
        failures: why others were not, by endpoint and `host:port`.
        given: the `host:port` that was asked for, if nothing answered there.

    """
    notes = []
    if given:
        reason = next((reported[given].reason for reported in failures.values() if given in reported), "no answer")
        notes.append(f"{given}: {reason}; what is read are the ports found beside it")
    if "grpc" in found and "http" not in found and failures["http"]:
        reported = _reported(failures["http"])
        notes.append(f"HTTP cannot be read ({reported}): statistics and configuration come over gRPC")
    return tuple(notes)


def _denied(failures: Mapping[str, ReadFailure]) -> bool:
    return any(failure.obstacle is Obstacle.DENIED for failure in failures.values())


def _no_metrics(server: str, failures: _Failures, fix: str) -> BlindSpot:
    return BlindSpot(
        what=hidden_by(METRICS_PORT, server),
        why=f"no metrics page: {_reported(failures['metrics'])}",
        fix=fix,
    )


def _no_api(server: str, failures: _Failures, fix: str) -> BlindSpot:
    missing = any(failure.reason == NOT_INSTALLED for failure in failures["grpc"].values())
    return BlindSpot(
        what=hidden_by(INFERENCE_PORT, server),
        why=f"neither HTTP ({_reported(failures['http'])}) nor gRPC ({_reported(failures['grpc'])}) can be read",
        fix="pip install 'triton-diagnostics[grpc]'" if missing and fix is _CLOSED else fix,
    )


def _reported(failures: Mapping[str, ReadFailure]) -> str:
    return "; ".join(f"{failure.reason} at {place}" for place, failure in failures.items()) or "not asked for"


HTTP, GRPC, METRICS = "http", "grpc", "metrics"
_OFFSETS = {HTTP: 0, GRPC: 1, METRICS: 2}
_NO_HOST = "check the host's name; if you mean a file, check its path, as there is no such file here"
_UP = "check the address, and that the server has finished loading its models"


def discover(url: str, options: SourceOptions | None = None) -> TritonServer:
    """Return the server that `url` belongs to, with every endpoint of it that could be found.

    Args:
        url: any one endpoint: `http(s)://host:port[/path]`, `host:port`, `host`, `grpc(s)://host:port`,
            or a metrics URL.
        options: how to read, and endpoints at unusual places.

    Raises:
        UsageError: `url` or an option cannot be used.
        CollectError: no endpoint of a Triton answers; the message says for each what came instead.

    """
    options = options or SourceOptions()
    address = parse_address(url)
    search = _Search(address, options.for_user(address.user))
    search.ask_given()
    search.ask_others()
    return search.server()


def discover_all(
    urls: Sequence[str], options: SourceOptions | None = None
) -> tuple[list[TritonServer], list[CollectError]]:
    """Return the servers that `urls` belong to, each once, and the failures of those that were not found.

    `k8s://namespace/service` stands for each ready pod of a Service.

    Raises:
        UsageError: a URL or an option cannot be used.

    """
    wanted, failed = _pods_named(dict.fromkeys(urls))
    with ThreadPoolExecutor(max_workers=16) as pool:
        found = list(pool.map(lambda url: _discover_or_fail(url, options), wanted))
    servers: dict[str, TritonServer] = {}
    for url, one in zip(wanted, found, strict=True):
        if isinstance(one, TritonServer):
            one.given = servers[one.name].given if one.name in servers else safe(url)
            servers[one.name] = one
    return list(servers.values()), failed + [one for one in found if isinstance(one, CollectError)]


def _pods_named(urls: Iterable[str]) -> tuple[list[str], list[CollectError]]:
    """Return addresses with those of a service's pods instead of the service, and the services without any."""
    named: dict[str, None] = {}
    failed: list[CollectError] = []
    for url in urls:
        try:
            named |= dict.fromkeys(service_urls(url) if url.startswith(PREFIX) else [url])
        except CollectError as error:
            failed.append(error)
    return list(named), failed


def _discover_or_fail(url: str, options: SourceOptions | None) -> TritonServer | CollectError:
    try:
        return discover(url, options)
    except CollectError as error:
        return error


class _Search:
    """One search: what was found, and why the rest was not."""

    def __init__(self, given: Address, options: SourceOptions) -> None:
        self.given, self.options = given, options
        self.found: dict[str, Api | Metrics] = {}
        self.failures: dict[str, dict[str, ReadFailure]] = {HTTP: {}, GRPC: {}, METRICS: {}}
        self.role = _role_by_number(given)
        self.answered = False

    def ask_given(self) -> None:
        """Ask the given port what it is."""
        if self.given.port is None:
            self.given = replace(self.given, port=DEFAULT_HTTP_PORT)
        for role in _roles_to_try(self.given):
            failure = self._ask(role, self.given)
            if failure is None:
                self.role, self.answered = role, True
                return
            self._refuse_wrong_scheme(self.given, failure)
            if failure.obstacle in (Obstacle.CLOSED, Obstacle.LATE):
                # Nobody there, or nobody free: the ports beside it may still answer.
                return
            if failure.obstacle is Obstacle.NO_HOST:
                break
        if not (self.options.metrics_url or self.options.grpc_url):
            raise self._nothing()

    def _refuse_wrong_scheme(self, named: Address, failure: ReadFailure) -> None:
        """Raise where a named port speaks the other of HTTP and TLS: a proxy of TLS refuses HTTP with status 400."""
        late = failure.obstacle is Obstacle.LATE and named.secure
        if not (late or failure.obstacle is Obstacle.PROTOCOL or failure.status == 400):
            return
        right = other_scheme(named, self.options.read_timeout)
        if right is not None:
            speaks = "speaks TLS" if right.secure else "does not speak TLS"
            raise CollectError(f"port {right.port} {speaks}", where=str(named), hint=f"use {right}")

    def ask_others(self) -> None:
        """Seek what the given port is not, side by side; gRPC only where HTTP is not open."""
        seek = [role for role in (METRICS, HTTP) if role not in self.found]
        executor: DeadlineExecutor[str, None] = DeadlineExecutor(2 * self.options.read_timeout)
        executor.run({role: partial(self._seek, role) for role in seek})
        if HTTP not in self.found and GRPC not in self.found:
            self._seek(GRPC)
        self._refuse_other_servers()

    def server(self) -> TritonServer:
        """Return what was found."""
        self._demand_explicit()
        metrics = self.found.get(METRICS)
        api = self.found.get(HTTP) or self.found.get(GRPC)
        if api is None and metrics is None:
            raise self._nothing()
        assert metrics is None or isinstance(metrics, Metrics)
        assert not isinstance(api, Metrics)
        given = None if self.answered else self.given.netloc()
        found = set(self.found)
        # An HTTP port that is too busy to answer now, or closed, may answer in a later round.
        api = api or self._awaited_http(metrics)
        found |= {HTTP} if api is not None and GRPC not in found else set()
        found |= {HTTP} if api is None and metrics is not None and metrics.alone else set()
        seen = [parse_address(part.url) for part in (metrics, api) if part is not None]
        name = seen[0].netloc()
        return TritonServer(
            name=name,
            host=self.given.host,
            ports=tuple(address.port for address in seen if address.port),
            api=api,
            metrics=metrics,
            blind_spots=blind_spots_of(
                name,
                found,
                self.failures,
                self._when_denied(),
                enclosed=metrics is not None and metrics.enclosed,
            ),
            notes=notes_of(found, self.failures, given),
            timeout=self.options.read_timeout,
        )

    def _ask(self, role: str, address: Address) -> ReadFailure | None:
        """Return why `address` is not a Triton's `role`; None when it is, and then it is kept."""
        probes: dict[str, Callable[[Address, SourceOptions], Api | Metrics]] = {
            HTTP: probe_http,
            GRPC: probe_grpc,
            METRICS: probe_metrics,
        }
        failures = self.failures[role]
        place = address.netloc()
        try:
            found = first_found([(place, partial(probes[role], address, self._options_at(address)))], failures)
        except UsageError as error:
            # gRPC cannot meet what HTTP can: no matter to whoever has not named a gRPC port.
            if role != GRPC or self.given.scheme in ("grpc", "grpcs") or self.options.grpc_url:
                raise
            found, failures[place] = None, ReadFailure(error.what, Obstacle.PROTOCOL)
        if found is None:
            return failures[place]
        self.found[role] = found
        return None

    def _options_at(self, address: Address) -> SourceOptions:
        """Return how an address is asked: with credentials where it was named, and not in the clear instead of TLS."""
        named = [self.given, *(parse_address(url) for url in (self.options.metrics_url, self.options.grpc_url) if url)]
        known = any((one.netloc(), one.secure) == (address.netloc(), address.secure) for one in named)
        return self.options if known else self.options.without_credentials()

    def _when_denied(self) -> str:
        """Return what to do where ports want other credentials than they were sent."""
        denied = (
            parse_address(place).port
            for failures in self.failures.values()
            for place, failure in failures.items()
            if failure.obstacle is Obstacle.DENIED
        )
        return (self.options if self.given.port in denied else self.options.without_credentials()).when_denied

    def _seek(self, role: str) -> None:
        for address in self._candidates(role):
            if self._ask(role, address) is None:
                return

    def _candidates(self, role: str) -> list[Address]:
        explicit = self._explicit(role)
        if explicit:
            return [parse_address(explicit)]
        given = self.given
        ports = self._ports(role)
        places = [replace(given, scheme=s, port=port, path="") for port in ports for s in self._schemes(role)]
        if role != GRPC and given.scheme in ("http", "https") and self.role != GRPC:
            # Behind a gateway, one port may lead to both.
            places.append(replace(given, path=given.path.removesuffix("/metrics")))
        return [place for place in places if self._untried(role, place)]

    def _ports(self, role: str) -> list[int]:
        """Return the ports where `role` may be, likeliest first."""
        assert self.given.port is not None
        http_port = DEFAULT_HTTP_PORT if self.given.port in (80, 443) else self.given.port - _OFFSETS[self.role]
        usual = http_port + _OFFSETS[role]
        pid = find_server(self.given.host, (self.given.port,))
        if pid is None:
            # A closed port of no known number may be any of the three.
            unsure = not self.answered and self.role == HTTP
            ports = [usual - offset for offset in (_OFFSETS.values() if unsure else (0,))]
            return [port for port in ports if 0 < port < 65536]
        # The process is here: what it listens on is known, wherever its ports were moved to.
        others = set(listening_ports(pid)) - {self.given.port}
        return sorted(others, key=lambda port: abs(port - usual))

    def _untried(self, role: str, place: Address) -> bool:
        return place.netloc() not in self.failures[role]

    def _explicit(self, role: str) -> str | None:
        return {METRICS: self.options.metrics_url, GRPC: self.options.grpc_url}.get(role)

    def _schemes(self, role: str) -> list[str]:
        if role == GRPC:
            return ["grpcs" if self.given.secure else "grpc"]
        if not self.given.secure:
            return ["http"]
        return ["https", "http"]  # Triton's own metrics port speaks no TLS

    def _refuse_other_servers(self) -> None:
        api, metrics = self.found.get(HTTP) or self.found.get(GRPC), self.found.get(METRICS)
        if api is None or metrics is None or self.options.metrics_url:
            return
        assert isinstance(metrics, Metrics)
        assert not isinstance(api, Metrics)
        if _share_no_model(api, metrics):
            reason = "shows none of this server's models: another server's page"
            other = METRICS if self.role != METRICS else HTTP if HTTP in self.found else GRPC
            part = self.found.pop(other)
            self.failures[other][parse_address(part.url).netloc()] = ReadFailure(reason, Obstacle.ANSWER)

    def _awaited_http(self, metrics: Metrics | None) -> Api | None:
        """Return the API at the port that was named, where nobody answered there: it is asked again in each round.

        A port that refuses connections is taken for HTTP only at the distance that Triton's ports have.
        """
        late = any(failure.obstacle is Obstacle.LATE for failure in self.failures[HTTP].values())
        named = self.failures[HTTP].get(self.given.netloc())
        closed = named is not None and named.obstacle is Obstacle.CLOSED
        if self.role != HTTP or not (late or (closed and self._beside(metrics))):
            return None
        return HttpApi(HttpReader(self.options), str(self.given))

    def _beside(self, metrics: Metrics | None) -> bool:
        """Return whether the page is where that of a server with the given HTTP port would be, or was named."""
        if metrics is None or self.given.port is None:
            return False
        found = parse_address(metrics.url).port
        return bool(self.options.metrics_url) or found == self.given.port + _OFFSETS[METRICS]

    def _demand_explicit(self) -> None:
        for role, url in ((METRICS, self.options.metrics_url), (GRPC, self.options.grpc_url)):
            needed = role == METRICS or HTTP not in self.found
            if url and needed and role not in self.found:
                failure = next(iter(self.failures[role].values()))
                self._refuse_wrong_scheme(parse_address(url), failure)
                hint = self.options.when_denied if failure.obstacle is Obstacle.DENIED else ""
                raise CollectError(failure.reason, where=str(parse_address(url)), hint=hint)

    def _nothing(self) -> CollectError:
        every = [(place, one) for failures in self.failures.values() for place, one in failures.items()]
        other = next((one for _, one in every if isinstance(one, OtherServer)), None)
        if other is not None:
            return CollectError(other.reason, where=str(self.given), hint=other.instead)
        # What is not installed here helps only where something listens.
        listening = [one for _, one in every if one.obstacle is not Obstacle.CLOSED and one.reason != NOT_INSTALLED]
        closed = any(one.obstacle is Obstacle.CLOSED for _, one in every)
        reasons: dict[str, dict[str, None]] = {}
        for place, one in every:
            if listening or not closed or one.reason != NOT_INSTALLED:
                reasons.setdefault(one.reason, {})[place] = None
        reported = "; ".join(f"{reason} at {', '.join(places)}" for reason, places in reasons.items())
        return CollectError(f"no Triton found: {reported}", where=str(self.given), hint=self._hint())

    def _hint(self) -> str:
        obstacles = {one.obstacle for failures in self.failures.values() for one in failures.values()}
        if Obstacle.DENIED in obstacles:
            return self._when_denied()
        if obstacles == {Obstacle.NO_HOST}:
            return _NO_HOST
        named = [failures.get(self.given.netloc()) for role, failures in self.failures.items() if role != GRPC]
        if self.given.scheme == "http" and any(one and one.obstacle is Obstacle.PROTOCOL for one in named):
            return f"if the port speaks TLS, write {replace(self.given, scheme='https')}"
        if self.given.path.strip("/") and any(one and one.status == HTTPStatus.NOT_FOUND for one in named):
            return f"if no proxy puts {self.given.path} before its paths, write {replace(self.given, path='')}"
        return _UP


def _role_by_number(given: Address) -> str:
    if given.scheme in ("grpc", "grpcs") or given.port == DEFAULT_HTTP_PORT + _OFFSETS[GRPC]:
        return GRPC
    if given.path.endswith("/metrics") or given.port == DEFAULT_HTTP_PORT + _OFFSETS[METRICS]:
        return METRICS
    return HTTP


def _roles_to_try(given: Address) -> tuple[str, ...]:
    if given.scheme in ("grpc", "grpcs"):
        return (GRPC,)
    if given.path.endswith("/metrics"):
        return (METRICS,)
    return (HTTP, METRICS, GRPC)


def _share_no_model(api: Api, metrics: Metrics) -> bool:
    try:
        listed = {entry.name for entry in parse_index(api.read(BodyKind.INDEX)) if entry.state == "READY"}
        series = ExpositionReader().read(metrics.read()).layout.series
    except (ReadFailure, MalformedBody):
        return False
    shown = {one.labels["model"] for one in series if "model" in one.labels}
    return bool(listed and shown) and listed.isdisjoint(shown)


__all__ = ["TritonServer", "discover", "discover_all"]
