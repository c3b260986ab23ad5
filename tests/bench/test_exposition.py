"""How much faster repeated scrapes are read than by the reference parser, both in this one run."""

from __future__ import annotations

import io
import random
import re
import statistics
import tarfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from diagnostics.window.parsed import ScrapeParser
from diagnostics.window.window import ServerWindow
from diagnostics.wire.records import BodyKind, Scrape
from tests.bench.conftest import Goals

CAPTURE = Path(__file__).parents[2] / "fixtures/captures/cpu-handed-single-instance.tar.xz"
MODELS = 50
SCRAPES = 12
CHANGING = 1 / 3
RATIO = 10.0


def _recorded_page() -> str:
    with tarfile.open(CAPTURE) as archive:
        member = next(m for m in archive if m.name.endswith(".prom"))
        return io.TextIOWrapper(archive.extractfile(member), "utf-8").read()


def _many_models(page: str) -> str:
    """Return `page` with its per-model lines repeated until it speaks of 50 models, families kept together."""
    copies = -(-MODELS // len(set(re.findall(r'model="([^"]+)"', page))))
    blocks: list[list[str]] = []
    for line in page.splitlines():
        if line.startswith("# HELP") or not blocks:
            blocks.append([])
        blocks[-1].append(line)
    lines: list[str] = []
    for block in blocks:
        lines += [line for line in block if line.startswith("#")]
        samples = [line for line in block if line and not line.startswith("#")]
        for copy in range(copies if any("model=" in line for line in samples) else 1):
            lines += [line.replace('model="', f'model="copy{copy}-') for line in samples]
    return "\n".join(lines) + "\n"


def _scrapes(page: str) -> list[bytes]:
    """Return consecutive bodies, in each of which a third of the values have grown."""
    draw = random.Random(7)
    lines, bodies = page.splitlines(), []
    for _ in range(SCRAPES):
        for at, line in enumerate(lines):
            if not line.startswith("#") and draw.random() < CHANGING:
                head, _, value = line.rpartition(" ")
                lines[at] = f"{head} {float(value) + draw.randrange(1, 9999):.0f}"
        bodies.append(("\n".join(lines) + "\n").encode())
    return bodies


def _reference_samples(body: bytes) -> int:
    return sum(len(family.samples) for family in text_string_to_metric_families(body.decode()))


def _scrape(at: int, body: bytes) -> Scrape:
    return Scrape(server="s", kind=BodyKind.METRICS, at=2.0 * at, mono=2.0 * at, body=body)


def _enter(window: ServerWindow, parser: ScrapeParser, scrape: Scrape) -> None:
    window.add(parser.parse(scrape))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def test_repeated_scrapes_enter_the_window_ten_times_faster_than_the_reference_parser_reads_them(goals: Goals):
    bodies = _scrapes(_many_models(_recorded_page()))
    window, parser = ServerWindow("s"), ScrapeParser()
    window.add(parser.parse(_scrape(0, bodies[0])))
    ours, reference = [], []
    for at, body in enumerate(bodies[1:], start=1):
        ours.append(_seconds(partial(_enter, window, parser, _scrape(at, body))))
        reference.append(_seconds(partial(_reference_samples, body)))
    folding = _seconds(window.fold_metrics) / len(bodies)

    seconds = statistics.median(ours) + folding
    snapshots = [snapshot for _, _, snapshot in window.snapshots]
    samples, ratio = len(snapshots[0].values), statistics.median(reference) / seconds
    print(f"\n{samples} samples a scrape, {samples / seconds / 1e6:.1f} M samples/s, {ratio:.0f}× the reference")
    assert [_reference_samples(body) for body in bodies[:2]] == [samples] * 2
    assert all(snapshot.layout is snapshots[0].layout for snapshot in snapshots)
    goals.at_least("a page of metrics, times as fast as the reference parser", ratio, RATIO)
