"""Samples of a machine's GPUs, by card."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.wire.gpu import Gpu, GpuSample


def by_card(samples: Sequence[GpuSample]) -> dict[str, list[tuple[float, Gpu]]]:
    """Return the cards' samples with their times; one that did not say who it is goes by its index."""
    known = {gpu.index: gpu.uuid for sample in samples for gpu in sample.gpus if gpu.uuid}
    series: dict[str, list[tuple[float, Gpu]]] = {}
    for sample in samples:
        for gpu in sample.gpus:
            if sample.at is not None:
                series.setdefault(gpu.uuid or known.get(gpu.index, ""), []).append((sample.at, gpu))
    return series
