"""How much faster repeated scrapes are read than by the reference parser, both in this one run."""

from __future__ import annotations

import io
import random
import re
import statistics
import tarfile
import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from diagnostics.wire.exposition import ExpositionReader, Snapshot

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


def test_repeated_scrapes_are_read_ten_times_faster_than_by_the_reference_parser():
    bodies = _scrapes(_many_models(_recorded_page()))
    reader, window = ExpositionReader(), list[Snapshot]()
    window.append(reader.read(bodies[0]))
    ours, reference = [], []
    for body in bodies[1:]:
        start = time.perf_counter()
        window.append(reader.read(body))
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        samples = _reference_samples(body)
        reference.append(time.perf_counter() - start)
        assert samples == len(window[-1].values)

    ratio = statistics.median(reference) / statistics.median(ours)
    rate = len(window[-1].values) / statistics.median(ours)
    print(f"\n{len(window[-1].values)} samples a scrape, {rate / 1e6:.1f} M samples/s, {ratio:.0f}× the reference")
    assert ratio >= RATIO
    assert all(snapshot.layout is window[0].layout for snapshot in window)
