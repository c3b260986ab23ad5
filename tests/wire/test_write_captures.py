from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnostics.errors import CaptureError, UsageError
from diagnostics.wire import capture_writer
from diagnostics.wire.capture import CaptureWriter, open_capture
from diagnostics.wire.capture_layout import place, scrape_at
from diagnostics.wire.records import BodyKind, Scrape

FORMS = ["recording", "recording.tar", "recording.tar.gz", "recording.tgz", "recording.tar.xz"]


def scrape(kind: BodyKind = BodyKind.METRICS, at: float = 10.0, body: bytes | None = b"x 1\n", **other) -> Scrape:
    return Scrape(**{"server": "s", "kind": kind, "at": at, "mono": at, "body": body} | other)


SCRAPES = [
    scrape(BodyKind.SERVER, body=b"{}"),
    scrape(BodyKind.CONFIG, body=b'{"name": "m"}', name="m"),
    scrape(BodyKind.REPOSITORY, body=b"", name="m/1/.keep"),
    scrape(BodyKind.METRICS, at=10.001),
    scrape(BodyKind.METRICS, at=12.0, server="t"),
    scrape(BodyKind.STATISTICS, at=12.0, body=b"{}"),
    scrape(BodyKind.INDEX, at=12.0, body=b"[]"),
    scrape(BodyKind.HOST, at=12.0, body=b"{}"),
    scrape(BodyKind.NVML, at=12.0, body=b"{}", server=""),
    scrape(BodyKind.TRACES, at=12.0, body=b'{"resourceSpans": []}', server=""),
    scrape(BodyKind.TRACES, at=12.5, body=b"\x0a\x00", server=""),
    scrape(BodyKind.CLIENT, body=b'{"t": 1}\n', server=""),
    scrape(BodyKind.LOG, body=b"I1 x\n"),
    scrape(BodyKind.STATISTICS, at=14.0, body=None, error="timed out after 2 s"),
]


def record(path, scrapes, **options) -> None:
    with CaptureWriter(path, "mine", ["s", "t"], 2.0, **options) as writer:
        for one in scrapes:
            writer.add(one)


@pytest.mark.parametrize("form", FORMS)
def test_what_was_recorded_reads_back(tmp_path, form):
    record(tmp_path / form, SCRAPES)
    capture = open_capture(tmp_path / form)

    assert set(capture.scrapes()) == set(SCRAPES)
    assert capture.damage is None
    assert (capture.manifest.name, capture.manifest.targets) == ("mine", ("s", "t"))
    assert (capture.manifest.window_from, capture.manifest.window_to) == (10.0, 14.0)


@pytest.mark.parametrize("form", FORMS[1:])
def test_an_archive_unpacks_with_tar_to_the_finished_manifest(tmp_path, form):
    record(tmp_path / form, SCRAPES)
    with tarfile.open(tmp_path / form) as archive:
        archive.extractall(tmp_path / "out", filter="data")

    assert json.loads((tmp_path / "out/mine/capture.json").read_bytes())["window_to"] == 14.0


def test_bodies_of_the_same_millisecond_are_all_kept(tmp_path):
    record(tmp_path / "c", [scrape(body=b"x 1\n"), scrape(body=b"x 2\n"), scrape(body=b"x 3\n")])

    assert {one.body for one in open_capture(tmp_path / "c").scrapes()} == {b"x 1\n", b"x 2\n", b"x 3\n"}


@pytest.mark.parametrize("form", ["c", "c.tar"])
def test_a_configuration_read_again_is_kept_with_its_time_when_it_changed(tmp_path, form):
    before, same, after = (
        scrape(BodyKind.CONFIG, at=at, body=body, name="m") for at, body in [(10, b"1"), (20, b"1"), (30, b"2")]
    )
    record(tmp_path / form, [before, same, after])

    assert set(open_capture(tmp_path / form).scrapes()) == {before, after}


def test_a_configuration_that_is_changed_and_put_back_is_kept_each_time(tmp_path):
    first, second, same, third = (
        scrape(BodyKind.CONFIG, at=at, body=body, name="m")
        for at, body in [(10, b"1"), (20, b"2"), (30, b"2"), (40, b"1")]
    )
    record(tmp_path / "c", [first, second, same, third])

    assert set(open_capture(tmp_path / "c").scrapes()) == {first, second, third}


def test_an_existing_file_is_never_overwritten_unless_reported(tmp_path):
    path = tmp_path / "c.tar"
    path.write_bytes(b"precious")
    with pytest.raises(UsageError, match="exists already"):
        record(path, SCRAPES)
    assert path.read_bytes() == b"precious"

    record(path, SCRAPES, overwrite=True)

    assert set(open_capture(path).scrapes()) == set(SCRAPES)


def test_a_folder_with_something_in_it_is_not_recorded_into(tmp_path):
    (tmp_path / "precious").write_bytes(b"")
    with pytest.raises(UsageError, match="exists already"):
        record(tmp_path, SCRAPES)


@pytest.mark.parametrize("name", ["absent/c.tar.xz", "c.zip", "c.tar.zst", "file/c"])
def test_a_path_that_cannot_be_written_is_a_usage_error(tmp_path, name):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError):
        record(tmp_path / name, SCRAPES)


@pytest.mark.parametrize("form", FORMS)
def test_an_interrupted_block_leaves_a_whole_capture(tmp_path, form):
    def interrupted():
        yield SCRAPES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(tmp_path / form, interrupted())
    capture = open_capture(tmp_path / form)

    assert (set(capture.scrapes()), capture.damage) == ({SCRAPES[0]}, None)


def test_ctrl_c_in_the_middle_of_a_write_waits_until_the_body_is_whole(tmp_path, monkeypatch):
    written = capture_writer._Folder.write

    def interrupted(self, path, body, at):
        os.kill(os.getpid(), signal.SIGINT)
        written(self, path, body, at)

    monkeypatch.setattr(capture_writer._Folder, "write", interrupted)
    # Whoever runs tests in several processes keeps Ctrl-C from them.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            record(tmp_path / "c", SCRAPES)
    finally:
        signal.signal(signal.SIGINT, before)

    assert set(open_capture(tmp_path / "c").scrapes()) == {SCRAPES[0]}


@pytest.mark.parametrize("form", ["c", "c.tar", "c.tar.gz"])
def test_a_killed_recording_still_opens_and_keeps_what_was_added(tmp_path, form):
    program = f"""
        import os, pathlib
        from diagnostics.wire.capture import CaptureWriter
        from diagnostics.wire.records import BodyKind, Scrape
        writer = CaptureWriter(pathlib.Path({str(tmp_path / form)!r}), "mine", ["s"], 2.0)
        for n in range(5):
            writer.add(Scrape(server="s", kind=BodyKind.METRICS, at=n, mono=n, body=b"x 1\\n" * 999))
        os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    capture = open_capture(tmp_path / form)

    assert len(list(capture.scrapes())) == 5
    assert capture.manifest.window_to is None


def test_a_recording_stops_with_a_clear_line_before_it_grows_unreadable(tmp_path, monkeypatch):
    monkeypatch.setattr(capture_writer, "MAX_TOTAL_BYTES", 10)
    with pytest.raises(CaptureError, match="largest size"):
        record(tmp_path / "c", [scrape(at=at) for at in range(9)])

    assert len(list(open_capture(tmp_path / "c").scrapes())) == 2


def test_a_recording_of_nothing_is_a_valid_empty_capture(tmp_path):
    record(tmp_path / "c.tar.xz", [])

    assert list(open_capture(tmp_path / "c.tar.xz").scrapes()) == []


NAMES = st.text(min_size=1, max_size=20) | st.sampled_from(
    [".", "..", "nvml", "traces", "capture.json", "a/../b", "%2E"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    server=NAMES,
    model=NAMES,
    kind=st.sampled_from([BodyKind.CONFIG, BodyKind.METRICS, BodyKind.LOG, BodyKind.REPOSITORY]),
)
def test_no_name_leads_out_of_the_capture_and_each_reads_back(server, model, kind):
    name = model if kind in (BodyKind.CONFIG, BodyKind.REPOSITORY) else ""
    if kind is BodyKind.REPOSITORY:
        name = "/".join(part for part in name.split("/") if part) or "m"
    one = scrape(kind, server=server, name=name)
    path = place(one)

    assert not path.startswith("/")
    assert not {".", "..", ""} & set(path.split("/"))
    assert scrape_at(path, one.body, one.at) == one
