"""Servers that were found, merged with those that are written down: which are read, and in which deployments."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from diagnostics.errors import CollectError
from diagnostics.service.plan import options_of
from diagnostics.settings.tree import CollectSettings, DeploymentSettings, FoundSettings, ServerSettings, Settings
from diagnostics.window.window import window_of
from diagnostics.wire.redact import without_secret
from exporters.sources.address import parse_address
from exporters.sources.target_list import FoundTarget
from exporters.sources.triton import discover

LONGEST_NAME = 200
"""Characters of a deployment's name, as of one that is written down."""
_NAMED_MODELS = 3
_NOT_IN_NAMES = re.compile(r"[\s/?#%]|[^\x20-\x7e\xa1-\U0010ffff]")
_WITHIN_PROMETHEUS = "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """A server that a source of discovery names.

    Attributes:
        target: what the source says of it.
        source: the source's name.
        server: how it is read.

    """

    target: FoundTarget
    source: str
    server: ServerSettings

    @property
    def place(self) -> str:
        """`host:port`, which identifies it."""
        return self.target.place

    @property
    def shown_labels(self) -> Mapping[str, str]:
        """Its labels without those for use within Prometheus, and without secrets."""
        return {
            name: without_secret(name, value)
            for name, value in self.target.labels.items()
            if not name.startswith(_WITHIN_PROMETHEUS)
        }


def found_server(target: FoundTarget, source: str, settings: FoundSettings) -> FoundServer:
    """Return a found server as the settings of its source want it read."""
    server = ServerSettings(
        url=target.url,
        bearer_token_file=settings.server_bearer_token_file,
        basic_auth_file=settings.server_basic_auth_file,
        ca_file=settings.server_ca_file,
        cert_file=settings.server_cert_file,
        key_file=settings.server_key_file,
        insecure=settings.server_insecure,
    )
    return FoundServer(target=target, source=source, server=server)


def merged(found: Iterable[FoundServer], most: int) -> tuple[list[FoundServer], int]:
    """Return each server once, as its first source has it, at most so many; and how many were left out."""
    servers: dict[str, FoundServer] = {}
    for one in found:
        servers.setdefault(one.place, one)
    # By place, so that it is always the same ones that are left out.
    kept = [servers[place] for place in sorted(servers)]
    return kept[:most], max(len(kept) - most, 0)


def with_found(settings: Settings, found: Sequence[FoundServer], groups: Mapping[str, str]) -> Settings:
    """Return the settings with found servers as if they were written down; those that are stay as they are.

    Args:
        settings: those of the file.
        found: the servers.
        groups: the deployment of each by its place; one without is a deployment of its own.

    """
    written = {parse_address(server.url).netloc() for server in settings.server}
    fresh = [one for one in found if one.place not in written]
    taken = {one.name for one in settings.deployment} | written
    members: dict[str, list[str]] = {}
    for one in fresh:
        name = groups.get(one.place) or group_named(one.place)
        members.setdefault(name if name not in taken else f"{name[: LONGEST_NAME - 6]}-found", []).append(
            one.server.url
        )
    deployments = [DeploymentSettings(name=name, servers=tuple(urls)) for name, urls in members.items()]
    return settings.model_copy(
        update={
            "server": (*settings.server, *(one.server for one in fresh)),
            "deployment": (*settings.deployment, *deployments),
        }
    )


def group_of(names: Collection[str]) -> str:
    """Return the name of a deployment of these ensembles or models; different ones have different names."""
    listed = sorted(names)
    name = _NOT_IN_NAMES.sub("_", "+".join(listed[:_NAMED_MODELS]))
    if len(listed) <= _NAMED_MODELS and len(name) <= LONGEST_NAME and name == "+".join(listed):
        return name
    digest = blake2b("\n".join(listed).encode(), digest_size=4).hexdigest()
    return f"{name[: LONGEST_NAME - 9]}-{digest}"


def group_named(label: str) -> str:
    """Return the name of a deployment that a label's value names; empty for an empty one."""
    return _NOT_IN_NAMES.sub("_", label)[:LONGEST_NAME]


class Served(NamedTuple):
    """What a look at a server found: its name, Prometheus' `instance`; its ensembles, else its models."""

    server: str = ""
    models: Collection[str] = ()


def served_by(server: ServerSettings, collect: CollectSettings) -> Served:
    """Return what a server has loaded; nothing where it does not answer.

    Raises:
        UsageError: a file of its credentials cannot be used.

    """
    options = options_of(server, collect)
    try:
        reached = discover(server.url, options)
    except CollectError:
        return Served()
    try:
        seen = window_of(reached.round()).servers.get(reached.name)
    finally:
        reached.close()
    if seen is None:
        return Served(reached.name)
    return Served(reached.name, set(seen.graph.ensembles) or {model for model, _ in seen.keys_seen()})
