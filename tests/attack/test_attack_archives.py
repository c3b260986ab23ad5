"""Archives that are small and do harm while they are unpacked: a second and 100 MB, whatever their headers say."""

from __future__ import annotations

import gzip
import lzma
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path

import pytest

from tests.attack.measuring import MIB, diag

SECONDS, BYTES = 1.0, 100 * MIB
PACKED_10_KB = 40_000
"""Members of three blocks each that repeat."""
STARTING = 1.5
"""Seconds that Python and the command take to begin, on a machine that is a little busy."""


def header(kind: bytes = b"0", size: bytes = b"00000000000\0", name: bytes = b"x", behind: bytes = b"") -> bytes:
    block = bytearray(512)
    block[: len(name)], block[100:124], block[124:136], block[136:148] = name, b"0000644\0" * 3, size, b"0" * 11 + b"\0"
    block[156:157], block[257:265], block[386 : 386 + len(behind)] = kind, b"ustar\x0000", behind
    block[148:156] = b"%06o\0 " % (sum(block) + 8 * 32)
    return bytes(block)


def signed(block: bytes) -> bytes:
    """Return a header with the sum that programs with signed bytes write."""
    stated = int(block[148:154], 8) - 256 * sum(byte > 0x7F for byte in block)
    return block[:148] + b"%06o\0 " % stated + block[156:]


def extended(kind: bytes, data: bytes) -> bytes:
    return header(kind, b"%011o\0" % len(data)) + data + b"\0" * (-len(data) % 512)


def below_zero(number: int) -> bytes:
    return b"\xff" + (number % 2**88).to_bytes(11, "big")


def small() -> Iterator[tuple[str, Callable[[], bytes]]]:
    yield "chain-of-long-names", lambda: b"".join(extended(b"L", b"a") for _ in range(20_000))
    yield "chain-of-pax-headers", lambda: extended(b"x", b"6 a=1\n") * 20_000
    yield "global-headers", lambda: b"".join(extended(b"g", b"14 k%06d=1\n" % number) for number in range(5_000))
    yield "digits-without-end", lambda: extended(b"x", b"9" * 1_000_000)
    yield "length-of-nothing", lambda: extended(b"x", b"0 a=bcd\n")
    yield "length-below-zero", lambda: extended(b"x", b"-5 size=1\n")
    yield "size-below-zero", lambda: extended(b"x", b"13 size=-512\n") + header()
    yield "many-records", lambda: extended(b"x", b"6 a=1\n" * 170_000)
    yield (
        "map-of-a-sparse-file",
        lambda: header(b"S", behind=b"0" * 96 + b"\1") + (b"0" * 504 + b"\1" + b"0" * 7) * 50_000,
    )
    yield (
        "sparse-by-pax",
        lambda: extended(b"x", b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n") + b"9\n" * 2_000_000,
    )
    yield "members-of-one-name", lambda: header() * 200_001
    yield "members-beyond-ascii", lambda: header(name=b"\xc3\xa4" * 5) * 200_001
    yield "members-of-signed-sums", lambda: signed(header(name=b"\xc3\xa4" * 5)) * 200_001
    yield "long-name-of-each-member", lambda: (extended(b"L", b"a/" * 100) + header()) * PACKED_10_KB
    yield "records-of-each-member", lambda: (extended(b"x", b"9 path=a\n" * 50) + header()) * PACKED_10_KB
    yield "promises-8-GiB", lambda: header(size=b"77777777777\0") + bytes(2**20)
    for kind in (b"0", b"L", b"K", b"x", b"g", b"S"):
        for number in (-512, -1024):
            yield f"size-of-{kind.decode()}-{number}", partial(header, kind, below_zero(number))


ATTACKS: Mapping[str, Callable[[], bytes]] = dict(small())
SHORT = ("chain-of-long-names", "digits-without-end", "size-of-x--1024")


@cache
def slowness() -> float:
    """Return how many times longer a processor takes here and now: other programs share its caches and its clock."""
    with tempfile.NamedTemporaryFile(suffix=".tar") as empty:
        empty.write(bytes(1024))
        empty.flush()
        return max(1.0, diag("explain", empty.name, patience=120).seconds / STARTING)


def explained(path: Path) -> None:
    diag("explain", path, patience=120).is_bounded((SECONDS + STARTING) * slowness(), BYTES)


@pytest.mark.parametrize("name", SHORT)
def test_headers_that_stop_a_reader(tmp_path: Path, name: str):
    path = tmp_path / "capture.tar"
    path.write_bytes(ATTACKS[name]() + bytes(1024))
    explained(path)


@pytest.mark.attack
@pytest.mark.parametrize("name", [one for one in ATTACKS if one not in SHORT])
def test_headers_that_cost_or_repeat(tmp_path: Path, name: str):
    path = tmp_path / "capture.tar.xz"
    path.write_bytes(lzma.compress(ATTACKS[name]() + bytes(1024), preset=1))
    explained(path)


@pytest.mark.attack
def test_a_header_that_is_cut_off_after_516_bytes(tmp_path: Path):
    path = tmp_path / "capture.tar"
    for kind in b"0LKxgS":
        path.write_bytes((header(bytes([kind]), b"00000000004\0") + b"0 a\n")[:516])
        explained(path)


@pytest.mark.attack
def test_packed_in_packed_is_not_unpacked_twice(tmp_path: Path):
    path = tmp_path / "capture.tar.gz"
    path.write_bytes(gzip.compress(gzip.compress(bytes(200 * MIB))))
    explained(path)


@pytest.mark.attack
@pytest.mark.parametrize("name", ["capture.json", "top/metrics/1000.prom"])
def test_a_member_that_is_packed_a_thousand_times(tmp_path: Path, name: str):
    path = tmp_path / "capture.tar.xz"
    path.write_bytes(lzma.compress(header(name=name.encode(), size=b"%011o\0" % (60 * MIB)) + bytes(60 * MIB)))
    explained(path)


@pytest.mark.attack
def test_packed_streams_without_content(tmp_path: Path):
    for name, packed in (("a.tar.gz", gzip.compress(b"")), ("a.tar.xz", lzma.compress(b""))):
        (tmp_path / name).write_bytes(packed * 300)
        explained(tmp_path / name)


def page_of(models: int, value: int) -> bytes:
    return b"".join(b'nv_inference_count{model="m%d",version="1"} %d\n' % (model, value) for model in range(models))


def log_of(lines: int) -> bytes:
    return b"I0101 00:00:00.000000 1 m.cc:1] successfully loaded 'm' version 1\n" * lines


@pytest.mark.attack
@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("s/server.log", lambda _: log_of(900_000)),
        ("s/later/{}/server.log", lambda _: log_of(100_000)),
        ("s/metrics/{}.prom", lambda at: page_of(2_000, at)),
    ],
    ids=["one log", "logs", "pages"],
)
def test_members_that_pack_well_and_mean_much_work(tmp_path: Path, name: str, body: Callable[[int], bytes]):
    """Up to 1 MB packed; some hundred MB unpacked."""
    parts = [("capture.json", b'{"format":1,"name":"x","targets":[{"name":"s"}]}')]
    count = 1 if "{}" not in name else 20
    parts += [(name.format(10**12 + 1000 * at), body(at)) for at in range(count)]
    members = (
        header(name=part.encode(), size=b"%011o\0" % len(data)) + data + b"\0" * (-len(data) % 512)
        for part, data in parts
    )
    path = tmp_path / "capture.tar.xz"
    path.write_bytes(lzma.compress(b"".join(members) + bytes(1024), preset=1))
    assert path.stat().st_size < 1_000_000
    diag("explain", path).is_bounded()


@pytest.mark.attack
def test_statistics_of_many_servers_with_many_models(tmp_path: Path):
    """20,000 models on each of 60 servers: the busiest are judged, within the ceilings of any capture."""
    entry = b'{"name":"m%d","version":"1","inference_stats":{"success":{"count":%d,"ns":%d}}}'
    servers = ",".join(f'{{"name":"s{at}"}}' for at in range(60)).encode()
    parts = [("capture.json", b'{"format":1,"name":"x","targets":[%s]}' % servers)]
    for server in range(60):
        for moment in range(2):
            entries = b",".join(entry % (model, 100 * moment, 10**9 * moment) for model in range(20_000))
            parts.append((f"s{server}/stats/{10**12 + 5000 * moment}.json", b'{"model_stats":[%s]}' % entries))
    path = tmp_path / "capture.tar.xz"
    packer = lzma.LZMACompressor(preset=1)
    with path.open("wb") as file:
        for name, data in parts:
            file.write(packer.compress(header(name=name.encode(), size=b"%011o\0" % len(data)) + data))
            file.write(packer.compress(b"\0" * (-len(data) % 512)))
        file.write(packer.compress(bytes(1024)) + packer.flush())
    assert path.stat().st_size < 1_000_000
    ended = diag("explain", path, patience=90).is_bounded()
    assert "healthy" not in ended.output.splitlines()[0]
    assert "models of" in ended.output
