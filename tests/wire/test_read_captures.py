from __future__ import annotations

import io
import json
import lzma
import os
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnostics.errors import CaptureError
from diagnostics.wire import archive as bounds
from diagnostics.wire.capture import Manifest, open_capture
from diagnostics.wire.records import BodyKind, Scrape

CAPTURES = Path(__file__).parents[2] / "fixtures/captures"
ONE = CAPTURES / "gpu-handed-noisy-neighbour.tar.xz"
MANIFEST = {"format": 1, "name": "small", "window_from": 10.0, "window_to": 12.0, "scrape_interval_s": 2}
PARTS = {
    "capture.json": json.dumps(MANIFEST).encode(),
    "s/metrics/10000.prom": b"x 1\n",
    "s/metrics/12000.prom": b"x 2\n",
    "s/config/m.json": b'{"name": "m"}',
    "s/repository/m/config.pbtxt": b'name: "m"',
    "s/server.log": b"I0000",
    "nvml/11500.json": b'{"gpus": []}',
    "traces/11000-0002.pb": b"\x00\xff",
    "client.jsonl": b"{}\n",
    "s/future/thing.bin": b"of a later version",
}


def tar_of(parts: dict[str, bytes], top: str = "") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, body in parts.items():
            member = tarfile.TarInfo(top + name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return stream.getvalue()


def scrapes_of(path: Path) -> set[Scrape]:
    return set(open_capture(path).scrapes())


def refusal(path: Path) -> str:
    with pytest.raises(CaptureError) as failure:
        list(open_capture(path).scrapes())
    assert str(path) in str(failure.value)
    assert "\n" not in str(failure.value)
    return str(failure.value)


@pytest.fixture(params=["folder", "tar", "tar.gz", "tar.xz"])
def packed(request, tmp_path):
    """The same recorded capture in each form, under a name that does not tell the form."""
    with tarfile.open(ONE) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    if request.param == "folder":
        return tmp_path / "unpacked"
    path = tmp_path / "capture.bin"
    mode = {"tar": "w", "tar.gz": "w:gz", "tar.xz": "w:xz"}[request.param]
    with tarfile.open(path, mode) as archive:
        archive.add(tmp_path / "unpacked", arcname=".")
    return path


def test_every_form_of_a_capture_yields_the_same_scrapes(packed):
    assert scrapes_of(packed) == scrapes_of(ONE)


def test_a_recorded_incident_holds_what_was_scraped():
    capture = open_capture(ONE)
    kinds = Counter(scrape.kind for scrape in capture.scrapes())

    assert capture.damage is None
    assert capture.manifest == Manifest(
        format=1,
        name="gpu-handed-noisy-neighbour",
        window_from=capture.manifest.window_from,
        window_to=capture.manifest.window_to,
        scrape_interval=2.0,
        targets=("triton-0",),
        trace_rate=10.0,
    )
    assert 20 < capture.manifest.window_to - capture.manifest.window_from < 30
    assert kinds == {
        BodyKind.METRICS: 12,
        BodyKind.STATISTICS: 12,
        BodyKind.INDEX: 12,
        BodyKind.HOST: 12,
        BodyKind.NVML: 22,
        BodyKind.TRACES: 6,
        BodyKind.CONFIG: 6,
        BodyKind.REPOSITORY: 12,
        BodyKind.SERVER: 1,
        BodyKind.LOG: 1,
        BodyKind.CLIENT: 1,
    }


@pytest.mark.parametrize("top", ["", "./", "wrapped/", "./wrapped/"])
@pytest.mark.parametrize("order", [1, -1], ids=["manifest first", "manifest last"])
def test_a_wrapping_folder_and_the_order_make_no_difference(tmp_path, top, order):
    (tmp_path / "c").write_bytes(tar_of(dict(list(PARTS.items())[::order]), top))

    def made(server: str, kind: BodyKind, at: float, path: str, name: str = "") -> Scrape:
        return Scrape(server=server, kind=kind, at=at, mono=at, body=PARTS[path], name=name)

    assert scrapes_of(tmp_path / "c") == {
        made("s", BodyKind.METRICS, 10.0, "s/metrics/10000.prom"),
        made("s", BodyKind.METRICS, 12.0, "s/metrics/12000.prom"),
        made("s", BodyKind.CONFIG, 10.0, "s/config/m.json", "m"),
        made("s", BodyKind.REPOSITORY, 10.0, "s/repository/m/config.pbtxt", "m/config.pbtxt"),
        made("s", BodyKind.LOG, 10.0, "s/server.log"),
        made("", BodyKind.NVML, 11.5, "nvml/11500.json"),
        made("", BodyKind.TRACES, 11.0, "traces/11000-0002.pb"),
        made("", BodyKind.CLIENT, 10.0, "client.jsonl"),
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty (0 bytes)"),
        (b"<html>", "neither a folder nor"),
        (b"PK\x03\x04" + b"\0" * 2000, "neither a folder nor"),
        (lzma.compress(b"no tar in here" * 100), "neither a folder nor"),
        (b"\xfd7zXZ\x00 and then something else", "neither a folder nor"),
        (b"\x1f\x8b and then something else", "neither a folder nor"),
        (b"\0" * 10240, "holds no capture.json"),
        (tar_of({"x": b"1"}), "holds no capture.json"),
        (tar_of({"a/b/capture.json": PARTS["capture.json"]}), "holds no capture.json"),
        (tar_of({"capture.json": b"{"}), "no capture: capture.json should be JSON"),
        (tar_of({"capture.json": b"{}"}), "capture format none"),
        (tar_of({"capture.json": b'{"format": 2}'}), "capture format '2', but this version reads format 1"),
        (tar_of({"capture.json": b'{"format": "one"}'}), "should be an integer"),
    ],
)
def test_what_is_no_capture_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "c.tar.xz").write_bytes(content)

    assert message in refusal(tmp_path / "c.tar.xz")


def test_nothing_an_empty_folder_and_a_device_are_no_captures(tmp_path):
    assert "no such file or folder" in refusal(tmp_path / "absent")
    assert "holds no capture.json" in refusal(tmp_path)
    assert "neither a folder nor" in refusal(Path("/dev/null"))


@pytest.mark.parametrize("name", ["../s/metrics/1.prom", "/s/metrics/1.prom", "s/../../metrics/1.prom"])
def test_a_name_that_leads_outside_is_refused(tmp_path, name):
    (tmp_path / "c").write_bytes(tar_of({**PARTS, name: b"x 1\n"}))

    assert "names a path outside itself" in refusal(tmp_path / "c")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_passed_over(tmp_path, kind):
    stream = io.BytesIO(tar_of(PARTS))
    with tarfile.open(fileobj=stream, mode="a") as archive:
        member = tarfile.TarInfo("s/metrics/13000.prom")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    (tmp_path / "c").write_bytes(stream.getvalue())

    assert max(scrape.at for scrape in scrapes_of(tmp_path / "c")) == 12.0


def test_links_in_a_folder_are_not_followed(tmp_path):
    (tmp_path / "c/s/metrics").mkdir(parents=True)
    (tmp_path / "c/capture.json").write_bytes(PARTS["capture.json"])
    (tmp_path / "secret").write_bytes(b"x 1\n")
    (tmp_path / "c/s/metrics/1.prom").symlink_to(tmp_path / "secret")
    (tmp_path / "c/t").symlink_to(tmp_path)

    assert scrapes_of(tmp_path / "c") == set()


@pytest.mark.parametrize(
    ("bound", "value", "message"),
    [
        ("MAX_MEMBERS", 5, "more than 5 files"),
        ("MAX_BODY_BYTES", 3, "is larger than"),
        ("MAX_TOTAL_BYTES", 100, "unpacks to more than"),
    ],
)
@pytest.mark.parametrize("form", ["folder", "archive"])
def test_every_bound_stops_the_reading(tmp_path, monkeypatch, form, bound, value, message):
    path = tmp_path / "c"
    if form == "archive":
        path.write_bytes(tar_of(PARTS))
    else:
        for name, body in PARTS.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(body)
    monkeypatch.setattr(bounds, bound, value)

    assert message in refusal(path)


def test_a_bomb_stops_at_the_bound_without_being_unpacked_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "MAX_TOTAL_BYTES", 2**20)
    (tmp_path / "c").write_bytes(lzma.compress(tar_of({**PARTS, "s/bomb": bytes(50 * 2**20)}), preset=0))

    assert "unpacks to more than" in refusal(tmp_path / "c")


def test_an_archive_that_wants_gigabytes_of_memory_is_refused(tmp_path):
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**29}]
    (tmp_path / "c").write_bytes(lzma.compress(tar_of(PARTS), filters=filters))

    assert "emory" in refusal(tmp_path / "c")


@pytest.mark.parametrize("pack", [bytes, lambda body: lzma.compress(body, preset=0)], ids=["tar", "xz"])
def test_of_a_truncated_archive_what_came_whole_is_used_and_the_damage_reported(tmp_path, pack):
    bodies = {f"s/metrics/{1000 + n}.prom": f"x {n}\n".encode() * 2000 for n in range(20)}
    whole = pack(tar_of({**PARTS, **bodies}))
    (tmp_path / "c").write_bytes(whole[: len(whole) // 2])
    capture = open_capture(tmp_path / "c")
    metrics = [scrape for scrape in capture.scrapes() if scrape.kind is BodyKind.METRICS]

    assert 0 < len(metrics) < 20
    assert all(
        scrape.body in [PARTS["s/metrics/10000.prom"], PARTS["s/metrics/12000.prom"], *bodies.values()]
        for scrape in metrics
    )
    assert "damaged after" in capture.damage
    assert "1 files" not in capture.damage


def test_folders_that_lie_deeper_than_a_manifest_may_are_not_walked(tmp_path, monkeypatch):
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c" / "file").write_bytes(b"")
    walked = []
    walk = os.walk
    monkeypatch.setattr(os, "walk", lambda *a, **k: (walked.append(one[0]) or one for one in walk(*a, **k)))

    assert "it holds no capture.json" in refusal(tmp_path)
    assert walked == [str(tmp_path), str(tmp_path / "a")]


def test_an_archive_cut_between_two_members_is_damaged_too(tmp_path):
    whole = tar_of(PARTS)
    (tmp_path / "c").write_bytes(whole[: 4 * 1024])
    capture = open_capture(tmp_path / "c")

    assert len(list(capture.scrapes())) == 3
    assert "no end mark" in capture.damage


def test_an_archive_damaged_before_its_manifest_cannot_be_opened(tmp_path):
    (tmp_path / "c").write_bytes(tar_of(dict(list(PARTS.items())[::-1]))[:4096])

    assert "damaged before its capture.json" in refusal(tmp_path / "c")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=600), cut=st.integers(0, 12_000), at=st.integers(0, 12_000))
def test_any_bytes_are_a_capture_or_a_clear_refusal(tmp_path, content, cut, at):
    whole = tar_of(PARTS)
    for number, body in enumerate([content, whole[:cut], whole[:at] + content + whole[at + len(content) :]]):
        (tmp_path / f"c{number}").write_bytes(body)
        try:
            list(open_capture(tmp_path / f"c{number}").scrapes())
        except CaptureError as failure:
            assert str(failure).isprintable()  # noqa: PT017 - either outcome is right


def test_unpacked_folder_without_its_wrapper_reads_alike(tmp_path):
    with tarfile.open(ONE) as archive:
        archive.extractall(tmp_path, filter="data")
    inner = tmp_path / "gpu-handed-noisy-neighbour"
    shutil.move(inner, tmp_path / "moved")

    assert scrapes_of(tmp_path / "moved") == scrapes_of(ONE)


def test_of_an_archive_that_unpacks_to_many_times_its_size_the_beginning_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "ALWAYS_BYTES", 2**20)
    monkeypatch.setattr(bounds, "PACKED_TIMES", 1)
    bodies = {f"s/metrics/{1000 + n}.prom": bytes(2**18) for n in range(40)}
    (tmp_path / "c").write_bytes(lzma.compress(tar_of({**PARTS, **bodies}), preset=0))
    capture = open_capture(tmp_path / "c")
    assert 0 < len(list(capture.scrapes())) < len(PARTS) + 10
    assert capture.damage is not None
    assert capture.damage.startswith("left out after ")
    assert "of so small a file, the first 1 MiB are read" in capture.damage
