"""Servers that names in DNS stand for, as in Prometheus' `dns_sd`: by address (A, AAAA), or with their ports (SRV)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from diagnostics.errors import CollectError, UsageError, not_installed
from exporters.sources.address import safe
from exporters.sources.target_list import TargetList, targets_of

RecordType = Literal["A", "AAAA", "SRV"]


class DnsTargets:
    """Names that are looked up again and again.

    A name that does not exist stands for no server. One that cannot be looked up is refused alone, and what it stood
    for before stays.
    """

    def __init__(
        self,
        names: Sequence[str],
        record: RecordType,
        port: int,
        *,
        nameserver: tuple[str, int] | None,
        timeout: float,
        scheme: str,
        refresh: float,
    ) -> None:
        """Take up what is looked up.

        Args:
            names: domain names.
            record: what kind of answer is wanted.
            port: of servers that are found by address.
            nameserver: address and port of who is asked; None for those of the system.
            timeout: seconds for the answer to one name.
            scheme: of the servers.
            refresh: seconds from one look to the next.

        Raises:
            UsageError: dnspython is not installed, or the system names no one to ask.

        """
        self.name = f"dns {record} {' '.join(map(safe, names))}"
        self.refresh = refresh
        self._names, self._record, self._port, self._scheme = names, record, port, scheme
        self._known: dict[str, TargetList] = {}
        self._timeout, self._resolver = timeout, _resolver(nameserver)

    def find(self) -> TargetList:
        """Return what the names stand for now.

        Raises:
            CollectError: none of them can be looked up, and none could before.

        """
        found, failure = TargetList(), None
        for name in self._names:
            try:
                self._known[name] = targets_of(list(self._look_up(name)), _labels(name), safe(name), self._scheme)
            except CollectError as error:
                failure = error
                found.refuse(safe(name), error.what)
            found.add(self._known.get(name, TargetList()))
        if failure is not None and not self._known:
            raise failure
        return found

    def _look_up(self, name: str) -> Iterator[str]:
        from dns import exception, resolver

        try:
            answer = self._resolver.resolve(name, self._record, raise_on_no_answer=False, lifetime=self._timeout)
        except resolver.NXDOMAIN:
            return
        except exception.DNSException as error:
            # Of several servers that fail it reports each on a line of its own.
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise CollectError(f"cannot be looked up: {reason}", where=safe(name)) from None
        for one in answer:
            if self._record == "SRV":
                # No target says that there is no such service (RFC 2782). A label may hold any byte. A slash, which
                # would begin a path, is written as zone files write any byte (RFC 1035, 5.1).
                if host := str(one.target).rstrip(".").replace("/", r"\047"):
                    yield f"{host}:{one.port}"
            else:
                yield f"[{one.address}]:{self._port}" if self._record == "AAAA" else f"{one.address}:{self._port}"


def _labels(name: str) -> dict[str, str]:
    """Return the label that Prometheus gives what it finds in DNS."""
    return {"__meta_dns_name": name}


def _resolver(nameserver: tuple[str, int] | None) -> Any:
    try:
        from dns import exception, resolver
        from dns import nameserver as servers
    except ModuleNotFoundError as error:
        raise not_installed(error, "dns", where="discovery.dns") from None
    try:
        made = resolver.Resolver(configure=nameserver is None)
        if nameserver is not None:
            made.nameservers = [servers.Do53Nameserver(*nameserver)]
    except (exception.DNSException, ValueError) as error:
        raise UsageError(f"no nameserver can be asked: {error}", where="discovery.dns") from None
    return made
