"""Lists of servers with labels, as Prometheus' discovery by files and by HTTP writes them.

`[{"targets": ["triton-0:8002"], "labels": {"team": "chat"}}]`. Sources: Prometheus, "Writing HTTP service discovery"
and `<file_sd_config>` in its documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from diagnostics.errors import MalformedBody, UsageError
from diagnostics.wire.json_body import JsonFields, excerpt
from exporters.sources.address import DEFAULT_HTTP_PORT, parse_address, safe

MOST_TARGETS = 10_000
"""Of one source: more servers than one service can read, with room for those that it leaves out (ours)."""
MOST_NAMED = 20
"""Of refused entries, how many are named (ours)."""
MOST_LABELS, LONGEST_LABEL = 64, 1024
"""Of one target; Prometheus itself has no limit, and Kubernetes ends a label's value at 63 characters (ours)."""
LONGEST_ADDRESS = 150
"""Characters: a deployment may be named by it, and Kubernetes' own names of pods and services are shorter (ours)."""
SCHEME, METRICS_PATH = "__scheme__", "__metrics_path__"
_USUAL_PATH = "/metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTarget:
    """A server that a source names.

    Attributes:
        url: any of its endpoints, without credentials.
        place: `host:port` of it, which identifies it.
        labels: what the source knows of it. Names that begin with `__` are for use within Prometheus.
        found_in: the file, URL or name that lists it.

    """

    url: str
    place: str
    labels: Mapping[str, str] = field(default_factory=dict)
    found_in: str = ""


@dataclass(slots=True)
class TargetList:
    """What a source names now. `refused` explains at most `MOST_NAMED` entries; `refused_count` counts all."""

    targets: list[FoundTarget] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    refused_count: int = 0

    def refuse(self, entry: str, reason: str) -> None:
        """Count an entry that cannot be used."""
        self.refused_count += 1
        if len(self.refused) < MOST_NAMED:
            self.refused[entry] = reason

    def add(self, other: TargetList) -> None:
        """Add what another list holds; targets beyond `MOST_TARGETS` are refused."""
        room = MOST_TARGETS - len(self.targets)
        self.targets += other.targets[:room]
        self.refused_count += other.refused_count
        for entry, reason in other.refused.items():
            if len(self.refused) < MOST_NAMED:
                self.refused[entry] = reason
        for one in other.targets[room:]:
            self.refuse(f"{one.found_in}: {one.place}", f"there are more than {MOST_TARGETS:,} targets")


class TargetSource(Protocol):
    """What names servers. Used by one thread.

    Attributes:
        name: as metrics, the page and messages call it.
        refresh: seconds from one look to the next.

    """

    name: str
    refresh: float

    def find(self) -> TargetList:
        """Return what it names now; CollectError where it cannot be asked, so that the former list stays."""
        ...


def parse_targets(groups: object, found_in: str, scheme: str) -> TargetList:
    """Return the targets of a decoded list of groups. A group or a target that cannot be used is refused alone.

    Args:
        groups: lists, mappings and text, as decoded from JSON or YAML.
        found_in: the file or URL, for messages and `FoundTarget.found_in`.
        scheme: of targets that name none, where no label `__scheme__` does.

    Raises:
        MalformedBody: it is no list.

    """
    if not isinstance(groups, list):
        what = f"should be a list of objects with targets but is {excerpt(repr(groups))}"
        raise MalformedBody(what, where=found_in)
    found = TargetList()
    for number, group in enumerate(groups, 1):
        try:
            texts, labels = _group(group)
        except MalformedBody as error:
            found.refuse(f"{found_in}: group {number}", error.what)
            continue
        found.add(targets_of(texts, labels, found_in, scheme))
    return found


def targets_of(texts: Sequence[object], labels: Mapping[str, str], found_in: str, scheme: str) -> TargetList:
    """Return the targets that texts as `host:port` name; those that are no address are refused."""
    found = TargetList()
    for text in texts:
        try:
            found.targets.append(_target(text, labels, found_in, scheme))
        except UsageError as error:
            found.refuse(f"{found_in}: {safe(text) if isinstance(text, str) else excerpt(repr(text))}", error.what)
    return found


def checked_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return labels.

    Raises:
        MalformedBody: they are too many, too long, or hold control characters.

    """
    if len(labels) > MOST_LABELS:
        raise MalformedBody(f"has more than {MOST_LABELS} labels")
    for name, value in labels.items():
        if not name or len(name) > LONGEST_LABEL or len(value) > LONGEST_LABEL:
            raise MalformedBody(f"the label {excerpt(name)} is empty or longer than {LONGEST_LABEL} characters")
        if not (name.isprintable() and value.isprintable()):
            raise MalformedBody(f"the label {excerpt(name)} holds control characters")
    return labels


def _group(group: object) -> tuple[list[object], Mapping[str, str]]:
    if not isinstance(group, dict):
        raise MalformedBody(f"should be an object but is {excerpt(repr(group))}")
    texts = group.get("targets")
    if not isinstance(texts, list):
        raise MalformedBody("has no list of targets")
    return texts, checked_labels(JsonFields(group, "a group").text_map("labels"))


def _target(text: object, labels: Mapping[str, str], found_in: str, scheme: str) -> FoundTarget:
    if not isinstance(text, str):
        raise UsageError("is no text")
    if len(text) > LONGEST_ADDRESS:
        raise UsageError(f"is longer than {LONGEST_ADDRESS} characters")
    address = parse_address(text)
    if address.user is not None:
        raise UsageError("names a user, which an address shows")
    if "://" not in text:
        address = replace(address, scheme=_scheme(labels, scheme))
    path = labels.get(METRICS_PATH, _USUAL_PATH)
    if not address.path and path not in ("", "/", _USUAL_PATH):
        # Read again, as what is in a label may be no path.
        address = parse_address(f"{address}/{path.lstrip('/')}")
    address = replace(address, port=address.port or DEFAULT_HTTP_PORT)
    return FoundTarget(url=str(address), place=address.netloc(), labels=labels, found_in=found_in)


def _scheme(labels: Mapping[str, str], scheme: str) -> str:
    named = labels.get(SCHEME, scheme)
    if named not in ("http", "https"):
        raise UsageError(f"the scheme {excerpt(named)} is neither http nor https")
    return named


def lines_of_refused(found: TargetList) -> Iterator[str]:
    """Yield why entries are refused, and how many more there are."""
    for entry, reason in found.refused.items():
        yield f"{entry}: {reason}"
    if more := found.refused_count - len(found.refused):
        yield f"and {more:,} more"
