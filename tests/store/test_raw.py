from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from diagnostics.cli.main import main
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.settings.tree import HistorySettings
from diagnostics.store import raw
from diagnostics.store.database import WriteErrors
from diagnostics.store.packing import Calendar, Packer
from diagnostics.store.recorder import Recorder
from diagnostics.store.segment import OpenSegment, mended
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind, Scrape
from tests.store.lived import INTERVAL, NAME, rounds, value

BEGIN = 1_700_000_000.0


def recorder(directory: Path, metrics: OwnMetrics, seconds: float = 120.0) -> Recorder:
    return Recorder(directory, seconds, metrics, WriteErrors(metrics), lambda _: None)


def record(directory: Path, lived: list[list[Scrape]], metrics: OwnMetrics | None = None, **more: float) -> None:
    made = recorder(directory, metrics or OwnMetrics(), **more)
    made.start()
    for scrape in (scrape for one in lived for scrape in one):
        made.record(NAME, scrape)
    made.stop()


def packer(directory: Path, metrics: OwnMetrics | None = None, **settings: object) -> Packer:
    chosen = HistorySettings(directory=directory, **settings)  # type: ignore[arg-type]
    return Packer(chosen, WriteErrors(metrics or OwnMetrics()))


def counters(directory: Path, start: float = 0.0, end: float = 4e9) -> list[float]:
    found = raw.scrapes(directory, NAME, start, end)
    return [round(one.at, 3) for one in found if one.kind is BodyKind.STATISTICS]


def files(directory: Path) -> list[Path]:
    return [one.path for one in raw.segments(raw.folder_of(directory, NAME))]


def test_each_segment_can_be_explained_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, rounds(24, begin=BEGIN))
    packer(tmp_path).pack_all()
    assert len(files(tmp_path)) == 3
    for file in files(tmp_path):
        assert file.name.endswith(".tar.xz")
        capture = open_capture(file)
        assert {scrape.name for scrape in capture.scrapes() if scrape.kind is BodyKind.CONFIG} == {"fast", "slow"}
        assert capture.damage is None
        assert main(["explain", str(file)]) == 0
        assert "slow" in capsys.readouterr().out


def test_segments_together_hold_what_was_read_once(tmp_path: Path) -> None:
    lived = rounds(24, begin=BEGIN)
    record(tmp_path, lived)
    everything = [scrape for one in lived for scrape in one]
    found = raw.scrapes(tmp_path, NAME, BEGIN - 1, BEGIN + 1000)
    assert sorted((one.kind, one.body) for one in found) == sorted((one.kind, one.body) for one in everything)
    steps = {round(one.mono - one.at, 3) for one in found}
    assert len(steps) == 1, "steady times of one run are comparable"


def test_what_lasts_is_found_however_long_ago_it_was_read(tmp_path: Path) -> None:
    record(tmp_path, rounds(24, begin=BEGIN))
    found = raw.scrapes(tmp_path, NAME, BEGIN + 300, BEGIN + 320)
    assert [one.name for one in found if one.kind is BodyKind.CONFIG] == ["fast", "slow"]
    assert len([one for one in found if one.kind is BodyKind.METRICS]) == 2


def test_a_configuration_that_is_read_later_is_not_known_before(tmp_path: Path) -> None:
    lived = rounds(8, begin=BEGIN)
    late = replace(lived[0][0], name="new", at=lived[5][0].at, mono=lived[5][0].mono)
    record(tmp_path, [*lived[:6], [late], *lived[6:]])
    known = [one.name for one in raw.scrapes(tmp_path, NAME, BEGIN, BEGIN + 60) if one.kind is BodyKind.CONFIG]
    assert "new" not in known
    known = [one.name for one in raw.scrapes(tmp_path, NAME, BEGIN, BEGIN + 75) if one.kind is BodyKind.CONFIG]
    assert "new" in known


def test_a_restart_goes_on_with_a_new_segment_that_begins_with_what_lasts(tmp_path: Path) -> None:
    lived = rounds(10, begin=BEGIN)
    record(tmp_path, lived[:5])
    without = [[one for one in scrapes if one.kind is not BodyKind.CONFIG] for scrapes in lived[5:]]
    # The steady clock of another boot.
    record(tmp_path, [[replace(one, mono=one.mono + 7e6) for one in scrapes] for scrapes in without])
    assert len(files(tmp_path)) == 2
    second = open_capture(files(tmp_path)[1]).scrapes()
    assert {one.name for one in second if one.kind is BodyKind.CONFIG} == {"fast", "slow"}
    found = [one for one in raw.scrapes(tmp_path, NAME, BEGIN, BEGIN + 500) if one.kind is BodyKind.METRICS]
    steps = [later.mono - sooner.mono for sooner, later in pairwise(found)]
    assert steps == pytest.approx([INTERVAL] * 9)


@pytest.mark.parametrize("step", [-3600.0, -20.0, 3600.0])
def test_a_clock_that_is_set_begins_a_new_segment_and_keeps_steady_steps(tmp_path: Path, step: float) -> None:
    lived = rounds(10, begin=BEGIN)
    moved = [[replace(one, at=one.at + step) for one in scrapes] for scrapes in lived[5:]]
    record(tmp_path, [*lived[:5], *moved], seconds=3600.0)
    assert len(files(tmp_path)) == 2
    found = [one for one in raw.scrapes(tmp_path, NAME, BEGIN - 9000, BEGIN + 9000) if one.kind is BodyKind.METRICS]
    assert [one.mono for one in found] == pytest.approx([500 + INTERVAL * number for number in range(10)])


def test_secrets_are_taken_out_of_every_body(tmp_path: Path) -> None:
    scrapes = [
        Scrape(
            server="s",
            kind=BodyKind.CONFIG,
            at=BEGIN,
            mono=0.0,
            name="m",
            body=b'{"name": "m", "parameters": {"api_key": {"string_value": "hunter2"}}}',
        ),
        Scrape(server="s", kind=BodyKind.METRICS, at=BEGIN, mono=0.0, body=b'up{url="http://a:hunter2@b/"} 1\n'),
        Scrape(server="s", kind=BodyKind.METRICS, at=BEGIN + 1, mono=1.0, body=b'up{url="http://a:hunter2@b/"} 2\n'),
        Scrape(server="s", kind=BodyKind.METRICS, at=BEGIN + 2, mono=2.0, error="http://a:hunter2@b/ is closed"),
    ]
    record(tmp_path, [scrapes])
    (file,) = files(tmp_path)
    assert b"hunter2" not in file.read_bytes()


def test_a_page_without_secrets_is_searched_again_when_its_text_changes(tmp_path: Path) -> None:
    def page(text: bytes, at: float) -> Scrape:
        return Scrape(server="s", kind=BodyKind.METRICS, at=BEGIN + at, mono=at, body=text)

    pages = [page(b'up{a="b"} 1\n', 0.0), page(b'up{a="b"} 2\n', 1.0), page(b'up{a="http://a:hunter2@b"} 3\n', 2.0)]
    record(tmp_path, [pages])
    assert b"hunter2" not in files(tmp_path)[0].read_bytes()


@pytest.mark.parametrize("cut", [1, 511, 513, 3000, 20_000])
def test_a_torn_tail_is_cut_and_everything_before_it_is_kept(tmp_path: Path, cut: int) -> None:
    lived = rounds(6, begin=BEGIN)
    segment = OpenSegment(tmp_path, NAME, "run", lived[0][0], ())
    for scrapes in lived:
        for scrape in scrapes:
            segment.add(scrape)
    before = list(open_capture(segment.path).scrapes())
    with segment.path.open("r+b") as file:
        file.truncate(segment.size - cut)
    path = mended(segment.path)
    assert path is not None
    capture = open_capture(path)
    kept = list(capture.scrapes())
    assert capture.damage is None
    assert kept == before[: len(kept)]
    assert len(kept) >= len(before) - 1 - cut // 1000
    with tarfile.open(path) as archive:
        assert archive.getnames()


def test_a_file_in_which_nothing_is_whole_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "1000.tar"
    path.write_bytes(b"x" * 700)
    assert mended(path) is None
    assert not path.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_disk_loses_bodies_until_there_is_room_and_damages_nothing(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = OwnMetrics()
    made = recorder(tmp_path, metrics, seconds=60.0)
    lived = rounds(15, begin=BEGIN)
    real, random = os.write, Random(3)

    def full(descriptor: int, data: bytes) -> int:
        if random.random() < 0.5:  # part of it still fits
            return real(descriptor, bytes(data[: len(data) // 2])) or 1
        raise OSError(number, os.strerror(number))

    for position, scrapes in enumerate(lived):
        monkeypatch.setattr(os, "write", full if 4 <= position < 9 else real)
        for scrape in scrapes:
            made.keep(NAME, scrape)
    made.start()
    made.stop()
    kept = counters(tmp_path)
    whole = [round(BEGIN + INTERVAL * position, 3) for position in (*range(4), *range(9, 15))]
    assert set(whole) <= set(kept)
    assert value(metrics, "diag_errors_total", part="history") >= 5
    assert value(metrics, "diag_dropped_total", queue="history") >= 5
    for file in files(tmp_path):
        capture = open_capture(file)
        assert all(scrape.body or scrape.error for scrape in capture.scrapes())
        assert capture.damage is None or "no end mark" in capture.damage
    packer(tmp_path).pack_all()
    for file in files(tmp_path):
        capture = open_capture(file)
        assert list(capture.scrapes())
        assert capture.damage is None
    assert counters(tmp_path) == kept


def test_thirty_days_stay_within_age_and_size(tmp_path: Path) -> None:
    folder = raw.folder_of(tmp_path, NAME)
    folder.mkdir(parents=True)
    day, made = 86400, packer(tmp_path, keep_raw=7 * 86400.0, keep_raw_bytes=1_000_000)
    for hour in range(0, 30 * 24, 4):
        start = BEGIN + hour * 3600
        size = 20_000 if hour < 20 * 24 else 40_000
        (folder / f"{start * 1000:.0f}-{(start + 4 * 3600) * 1000:.0f}.tar.xz").write_bytes(bytes(size))
        (folder / f"{(start + 1) * 1000:.0f}.tar").touch()  # being written
        made.retain(start + 4 * 3600, hour * 3600.0)
        (folder / f"{(start + 1) * 1000:.0f}.tar").unlink()
        found = raw.segments(folder)
        assert sum(one.path.stat().st_size for one in found) <= 1_000_000
        assert all((one.end or 0) >= start + 4 * 3600 - 7 * day for one in found)
        assert found[-1].start == pytest.approx(start)
    assert len(found) == 25


def test_what_is_being_written_is_never_deleted(tmp_path: Path) -> None:
    made = packer(tmp_path, keep_raw=1.0, keep_raw_bytes=1)
    lived = rounds(4, begin=BEGIN)
    segment = OpenSegment(raw.folder_of(tmp_path, NAME), NAME, "run", lived[0][0], ())
    made.pack_all()
    made.retain(BEGIN + 1e6, 0.0)
    assert segment.path.exists()
    # Left by a writer that is gone, it is neither.
    packer(tmp_path, keep_raw=1.0).retain(BEGIN + 1e6, 0.0)
    assert not segment.path.exists()


def test_a_clock_that_jumps_ahead_does_not_make_everything_old() -> None:
    calendar = Calendar()
    assert calendar.trusted(BEGIN, 0.0)
    assert calendar.trusted(BEGIN + 60, 60.0)
    assert not calendar.trusted(BEGIN + 1e8, 120.0)
    assert not calendar.trusted(BEGIN + 120, 180.0)
    assert calendar.trusted(BEGIN + 8000, 8000.0)


# Begins a life as a process of its own, forked when all is imported, for each line: the number of its first round.
_WRITER = """
import os, sys, time
from pathlib import Path
from tests.store.lived import NAME, deployment, live, opened, rounds
from diagnostics.service.own.metrics import OwnMetrics

def life(first):
    metrics = OwnMetrics()
    history = opened(directory, metrics, segment=60.0)
    watched = deployment(metrics)
    watched.resume(history.recent_scrapes(NAME, begin), history.open_incidents(NAME))
    history.start()
    print(os.getpid(), flush=True)
    for number, _ in enumerate(live(history, watched, lived[first:])):
        print(first + number, *(one.id for one in watched.book.open), flush=True)
        time.sleep(0.05)  # a round is written long before the next, also on a busy machine

directory, begin = Path(sys.argv[1]), float(sys.argv[2])
lived = rounds(400, begin=begin)
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        life(int(line))
        os._exit(0)
    os.waitpid(pid, 0)
    print("over", flush=True)
"""


def test_kill_9_at_random_moments_loses_at_most_one_round_and_no_identity(tmp_path: Path) -> None:
    random, begin, first, identities = Random(11), time.time() - 400 * INTERVAL, 0, set[str]()
    arguments = [sys.executable, "-c", _WRITER, str(tmp_path), str(begin)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(3):
            lines = one_life(process, first, random.randint(3, 15))
            identities |= {name for line in lines for name in line[1:]}
            last = int(lines[-1][0])
            kept = counters(tmp_path, begin)
            assert kept == pytest.approx([begin + INTERVAL * number for number in range(len(kept))], abs=2e-3)
            assert last <= len(kept) <= last + 2, "what was read before the last round is there"
            first = len(kept)
        process.communicate()
    assert len(identities) == 1
    packer(tmp_path).pack_all()
    assert counters(tmp_path, begin) == kept


def one_life(process: subprocess.Popen[str], first: int, wanted: int) -> list[list[str]]:
    """Begin a life with a round, kill it after so many, and return what it said of each."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{first}\n")
    process.stdin.flush()
    alive = int(process.stdout.readline())
    lines = [process.stdout.readline().split() for _ in range(wanted)]
    os.kill(alive, signal.SIGKILL)
    while (line := process.stdout.readline()) != "over\n":
        lines.append(line.split())
    return lines


def test_bodies_that_wait_are_bounded_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.store.recorder.MOST_BYTES", 10_000)
    metrics = OwnMetrics()
    made = recorder(tmp_path, metrics)
    for number in range(10):
        made.record(
            NAME, Scrape(server="s", kind=BodyKind.STATISTICS, at=BEGIN + number, mono=number, body=b"x" * 3_000)
        )
    assert value(metrics, "diag_dropped_total", queue="history") == 7
    made.start()
    made.stop()
    assert len(counters(tmp_path)) == 3


@pytest.mark.parametrize("at", ["replace", "unlink"])
def test_packing_that_is_killed_is_done_again(tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, rounds(8, begin=BEGIN))
    kept = counters(tmp_path)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, at, killed)
        with pytest.raises(KeyboardInterrupt):
            packer(tmp_path).pack_all()
    assert counters(tmp_path) == kept
    again = packer(tmp_path)
    again.clear()
    again.pack_all()
    assert counters(tmp_path) == kept
    assert {file.name.partition(".")[2] for file in raw.folder_of(tmp_path, NAME).iterdir()} == {"tar.xz"}
