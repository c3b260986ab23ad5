"""Servers that names in DNS stand for, as a nameserver answers over UDP."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping

import pytest

from diagnostics.errors import CollectError
from exporters.sources.dns_targets import DnsTargets, RecordType

pytest.importorskip("dns", reason="dnspython is not installed")
import dns.flags
import dns.message
import dns.rcode
import dns.rrset

Zone = dict[tuple[str, str], tuple[str, ...]]
ZONE: Zone = {
    ("triton.example.", "A"): ("10.0.0.2", "10.0.0.1"),
    ("triton.example.", "AAAA"): ("2001:db8::1",),
    ("_http._tcp.triton.example.", "SRV"): ("0 5 8000 triton-0.example.", "0 5 8010 triton-1.example."),
}


class Nameserver:
    """Answers from a zone over UDP. What is not in it does not exist; `broken` names fail, `aliases` are others."""

    def __init__(self, zone: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        self.zone, self.broken, self.aliases = dict(zone), set[str](), dict[str, str]()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._socket.getsockname()

    @contextlib.contextmanager
    def running(self) -> Iterator[Nameserver]:
        threading.Thread(target=self._serve, daemon=True).start()
        try:
            yield self
        finally:
            self._socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                data, peer = self._socket.recvfrom(4096)
                self._socket.sendto(self._answer(dns.message.from_wire(data)).to_wire(), peer)

    def _answer(self, query: dns.message.Message) -> dns.message.Message:
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        (question,) = query.question
        name, kind = str(question.name), dns.rdatatype.to_text(question.rdtype)
        if name in self.broken:
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif name in self.aliases:
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", "CNAME", self.aliases[name]))
        elif (name, kind) in self.zone:
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", kind, *self.zone[name, kind]))
        elif not any(known == name for known, _ in self.zone):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        return answer


@pytest.fixture
def nameserver() -> Iterator[Nameserver]:
    with Nameserver(ZONE).running() as one:
        yield one


def source(nameserver: Nameserver, record: RecordType, *names: str) -> DnsTargets:
    return DnsTargets(names, record, 8000, nameserver=nameserver.address, timeout=2.0, scheme="http", refresh=30)


def places(found: DnsTargets) -> list[str]:
    return sorted(one.place for one in found.find().targets)


@pytest.mark.parametrize(
    ("record", "name", "expected"),
    [
        ("A", "triton.example.", ["10.0.0.1:8000", "10.0.0.2:8000"]),
        ("AAAA", "triton.example.", ["[2001:db8::1]:8000"]),
        ("SRV", "_http._tcp.triton.example.", ["triton-0.example:8000", "triton-1.example:8010"]),
        ("A", "nobody.example.", []),
        ("SRV", "triton.example.", []),
    ],
)
def test_a_name_stands_for_its_servers(
    nameserver: Nameserver, record: RecordType, name: str, expected: list[str]
) -> None:
    looked_up = source(nameserver, record, name)
    assert places(looked_up) == expected
    assert all(one.labels == {"__meta_dns_name": name} for one in looked_up.find().targets)


def test_servers_come_and_go_with_the_answers(nameserver: Nameserver) -> None:
    looked_up = source(nameserver, "A", "triton.example.")
    looked_up.find()
    nameserver.zone["triton.example.", "A"] = ("10.0.0.3",)
    assert places(looked_up) == ["10.0.0.3:8000"]
    nameserver.zone.clear()
    assert places(looked_up) == []


def test_what_a_name_stood_for_stays_while_it_cannot_be_looked_up(nameserver: Nameserver) -> None:
    nameserver.zone["other.example.", "A"] = ("10.0.0.9",)
    looked_up = source(nameserver, "A", "triton.example.", "other.example.")
    before = places(looked_up)
    nameserver.broken.add("triton.example.")
    nameserver.zone["other.example.", "A"] = ("10.0.0.8",)
    found = looked_up.find()
    assert sorted(one.place for one in found.targets) == [*before[:2], "10.0.0.8:8000"]
    assert list(found.refused) == ["triton.example."]
    assert "SERVFAIL" in found.refused["triton.example."]


def test_a_name_that_never_could_be_looked_up_is_reported(nameserver: Nameserver) -> None:
    nameserver.broken.add("triton.example.")
    with pytest.raises(CollectError, match=r"triton\.example\.: cannot be looked up: .*SERVFAIL"):
        source(nameserver, "A", "triton.example.").find()
    with pytest.raises(CollectError, match="cannot be looked up"):
        source(nameserver, "A", "x" * 70).find()


def test_targets_of_services_that_are_no_hosts_stand_for_no_server(nameserver: Nameserver) -> None:
    """No target (RFC 2782), a URL, a user, and control characters; the rest of the answer is read."""
    targets = (".", "http://192.0.2.1/x.", r"user:word\@host.", r"a\027[2J.", "triton-0.example.")
    nameserver.zone["_odd._tcp.example.", "SRV"] = tuple(f"0 0 8000 {one}" for one in targets)
    found = source(nameserver, "SRV", "_odd._tcp.example.").find()
    assert [one.place for one in found.targets] == ["triton-0.example:8000"]
    assert found.refused_count == 3
    assert "".join(found.refused).isprintable()
    assert "word" not in "".join(found.refused)


def test_names_that_stand_for_each_other_are_given_up(nameserver: Nameserver) -> None:
    nameserver.zone["loop.example.", "A"] = ("10.0.0.1",)
    nameserver.aliases["loop.example."] = "loop.example."
    with pytest.raises(CollectError, match="CNAME chain is too long"):
        source(nameserver, "A", "loop.example.").find()
