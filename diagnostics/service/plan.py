"""Which of several workers watches a deployment: each finds out for itself, and they agree without talking.

Rendezvous hashing (Thaler and Ravishankar, 1998): a worker more or less moves only the deployments that it takes or
leaves, so that the others keep their windows.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from diagnostics.diagnosis.objective import Objective
from diagnostics.errors import CollectError, UsageError
from diagnostics.service.jobs import Job, MachineReader, TritonReader
from diagnostics.settings.load import Loaded
from diagnostics.settings.tree import CollectSettings, DeploymentSettings, FleetSettings, ServerSettings, Settings
from exporters.sources.access import SourceOptions, secret_of
from exporters.sources.address import parse_address
from exporters.sources.dcgm import DcgmPage
from exporters.sources.repository import repository_scrapes


def check_fleet(loaded: Loaded) -> None:
    """Refuse workers that would all be the first one, or that could not see each other's history.

    Raises:
        UsageError: of several workers this one's number is not said, or the history is no PostgreSQL.

    """
    settings, where = loaded.settings, loaded.where("fleet.workers")
    if settings.fleet.workers == 1:
        return
    if "worker" not in settings.fleet.model_fields_set:
        hint = "set fleet.worker, or DIAG_FLEET__WORKER, from 0 on"
        raise UsageError("of several workers each must know which one it is", where=where, hint=hint)
    if not settings.history.database.startswith("postgresql"):
        hint = "set history.database to postgresql://user@host/name"
        raise UsageError("workers share their history in a PostgreSQL, and none is named", where=where, hint=hint)


def owner(deployment: str, workers: int) -> int:
    """Return the number of the worker, from 0 on, that watches a deployment."""
    return max(range(workers), key=lambda worker: _weight(worker, deployment))


def owns(fleet: FleetSettings, deployment: str) -> bool:
    """Return whether a deployment is this worker's."""
    return owner(deployment, fleet.workers) == fleet.worker


def _weight(worker: int, deployment: str) -> bytes:
    return blake2b(f"{worker}/{deployment}".encode(), digest_size=8).digest()


# Clocks, throttling and pressure change faster than a server's counters are read, and a sample costs a millisecond.
MACHINE_INTERVAL = 5.0
MACHINE = "this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A deployment to be. `interval` is the shortest of its servers', in seconds."""

    name: str
    urls: tuple[str, ...]
    objective: Objective | None
    interval: float


def deployments(settings: Settings) -> Mapping[str, Planned]:
    """Return the deployments by name: those that are written down, and one for each server that is in none.

    Raises:
        UsageError: a server is written down twice, or a deployment names one that is not, or that another has.

    """
    _check_once(settings)
    servers = {server.url: server for server in settings.server}
    owner: dict[str, str] = {}
    found: dict[str, Planned] = {}
    for written in settings.deployment:
        for url in written.servers:
            if url not in servers:
                raise UsageError(f"there is no [[server]] with the URL {url!r}", where=f"deployment {written.name}")
            if owner.setdefault(url, written.name) != written.name:
                raise UsageError(f"{url} is in {owner[url]} too", where=f"deployment {written.name}")
        if written.name in found:
            raise UsageError("two deployments have this name", where=f"deployment {written.name}")
        objective = _objective(written)
        found[written.name] = _planned(written.name, written.servers, objective, servers, settings.collect)
    for url in servers:
        if url not in owner:
            name = parse_address(url).netloc()
            if name in found:
                raise UsageError(f"two deployments would be called {name}", where=url, hint="name them: [[deployment]]")
            found[name] = _planned(name, (url,), None, servers, settings.collect)
    return found


def _objective(written: DeploymentSettings) -> Objective | None:
    try:
        return Objective.parse(written.objective) if written.objective else None
    except UsageError as error:
        raise UsageError(error.what, where=f"deployment {written.name}", hint=error.hint) from None


def _check_once(settings: Settings) -> None:
    if twice := _twice([server.url for server in settings.server]):
        hint = "write each once: what one says would go unread"
        raise UsageError("is the URL of two [[server]]", where=twice, hint=hint)
    for written in settings.deployment:
        if twice := _twice(written.servers):
            raise UsageError(f"names {twice} twice", where=f"deployment {written.name}")


def _twice(urls: Sequence[str]) -> str | None:
    """Return the first that is there more than once."""
    return next((url for url, times in Counter(urls).items() if times > 1), None)


def own(settings: Settings) -> Mapping[str, Planned]:
    """Return the deployments that this worker watches: all of them, where there is no other.

    Raises:
        UsageError: as `deployments`.

    """
    return {name: planned for name, planned in deployments(settings).items() if owns(settings.fleet, name)}


def _planned(
    name: str,
    urls: tuple[str, ...],
    objective: Objective | None,
    servers: Mapping[str, ServerSettings],
    collect: CollectSettings,
) -> Planned:
    interval = min(servers[url].interval or collect.interval for url in urls)
    return Planned(name=name, urls=urls, objective=objective, interval=interval)


def jobs(settings: Settings, planned: Mapping[str, Planned]) -> list[Job]:
    """Return a job per server and per page of a dcgm-exporter.

    Raises:
        UsageError: a file of credentials or certificates cannot be used, or an address is none.

    """
    servers = {server.url: server for server in settings.server}
    found = []
    for deployment in planned.values():
        for url in deployment.urls:
            server = servers[url]
            interval = server.interval or settings.collect.interval
            options = options_of(server, settings.collect)
            reader = TritonReader(url, options, server.repository)
            found.append(Job(key=url, deployment=deployment.name, interval=interval, reader=reader))
            if server.dcgm_url:
                page = DcgmPage(server.dcgm_url, options)
                found.append(
                    Job(key=page.name, deployment=deployment.name, interval=interval, reader=page, counts=False)
                )
    return found


def check_repositories(settings: Settings) -> None:
    """Look whether each model repository that is named can be read.

    Raises:
        UsageError: one is no folder with models; a service that runs says so in its answers, and goes on.

    """
    for server in settings.server:
        if server.repository is None:
            continue
        try:
            deque(repository_scrapes(server.repository, ()), maxlen=0)
        except CollectError as error:
            hint = f"look at the repository of {server.url}"
            raise UsageError(error.what, where=error.where, hint=hint) from None


def with_machine(read: Mapping[str, Job]) -> dict[str, Job]:
    """Return the jobs by key, and one more that samples the machine any of their servers may run on."""
    readers: dict[str, list[TritonReader]] = {}
    for job in read.values():
        if isinstance(job.reader, TritonReader):
            readers.setdefault(job.deployment, []).append(job.reader)
    interval = min(MACHINE_INTERVAL, *(job.interval for job in read.values())) if read else MACHINE_INTERVAL
    machine = Job(
        key=MACHINE, deployment="", interval=interval, reader=MachineReader(readers), counts=False, local=True
    )
    return {**read, MACHINE: machine}


def options_of(server: ServerSettings, collect: CollectSettings) -> SourceOptions:
    """Return how a server is reached, with the secrets of its files.

    Raises:
        UsageError: a file cannot be read or used.

    """
    options = SourceOptions(
        timeout=server.timeout or collect.timeout,
        bearer_token=secret_of(server.bearer_token_file, "bearer token"),
        basic=secret_of(server.basic_auth_file, "user and password"),
        ca_file=server.ca_file,
        cert_file=server.cert_file,
        key_file=server.key_file,
        insecure=server.insecure,
        max_body=collect.max_body,
        metrics_url=server.metrics_url,
        grpc_url=server.grpc_url,
        dcgm_url=server.dcgm_url,
        credentials_by="bearer_token_file or basic_auth_file of the server in the settings",
    )
    options.tls()  # a certificate that cannot be used is told at once, not at each read
    return options
