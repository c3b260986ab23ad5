"""The GPUs of one machine as dcgm-exporter's page has them.

Names: DCGM, `dcgm_fields.h`; dcgm-exporter, `etc/default-counters.csv`. Both the long-standing names and the ones that
say their unit (`…_UTIL_RATIO`, `…_HERTZ`, `…_BYTES`; dcgm-exporter 4.9) are read. Percent, MiB, MHz and millijoules
become ratios, bytes, hertz and joules; the blank values of DCGM and what cannot be true are None.

Of a divided card (MIG) the rows of an instance have its id (`GPU_I_ID`) and belong to that part alone. The labels that
Kubernetes adds (`pod`, `namespace`, `container`; `exported_…` through Prometheus) repeat a row for each pod that shares
a card, with the card's value: such rows are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

from diagnostics import names
from diagnostics.wire.exposition import ExpositionReader, Snapshot
from diagnostics.wire.gpu import BLANK_FLOAT, BLANK_SHORT, DCGM, HIGHEST_RATIO, MEGA, MILLI, PERCENT, Gpu, GpuSample

_MEBIBYTE = 2.0**20
# Names that end in a base unit hold it as it is.
_BASE_UNITS = ("_HERTZ", "_BYTES")
Card = tuple[str, str]
Values = dict[str, float]


def parse_dcgm(body: bytes, at: float) -> GpuSample:
    """Return the sample in a page that was read at Unix second `at`; a page without DCGM's families has no GPU.

    Raises:
        MalformedBody: it is no page of metrics.

    """
    return sample_of(ExpositionReader().read(body), at)


def sample_of(snapshot: Snapshot, at: float) -> GpuSample:
    """Return the sample on a page of Unix second `at` that was read already."""
    whole, parts = _by_card(snapshot)
    cards = sorted({*whole, *parts})
    return GpuSample(
        at=at,
        gpus=tuple(
            _divided(card, position, whole.get(card, {}), parts.get(card, {})) for position, card in enumerate(cards)
        ),
    )


def _by_card(snapshot: Snapshot) -> tuple[dict[Card, Values], dict[Card, dict[str, Values]]]:
    """Return the values of whole cards by (index, uuid), and those of their MIG instances by instance id."""
    whole: dict[Card, Values] = {}
    parts: dict[Card, dict[str, Values]] = {}
    for series, value in zip(snapshot.layout.series, snapshot.values, strict=True):
        labels = series.labels
        if not series.name.startswith(names.DCGM_PREFIX) or not isfinite(value):
            continue
        card = (labels.get("gpu", ""), labels.get("UUID") or labels.get("uuid", ""))
        part = labels.get(names.DCGM_MIG_INSTANCE)
        into = parts.setdefault(card, {}).setdefault(part, {}) if part else whole.setdefault(card, {})
        into[series.name] = value
    return whole, parts


def _divided(card: Card, position: int, values: Values, parts: Mapping[str, Values]) -> Gpu:
    gpu = _gpu(card, position, values)
    if not parts:
        return gpu
    each = {part: _gpu(card, position, of_part) for part, of_part in sorted(parts.items())}
    instances = tuple(
        replace(one, mig=True, instance=int(part) if part.isdecimal() else None) for part, one in each.items()
    )
    return replace(gpu, mig=True, parts=instances)


def _gpu(card: Card, position: int, values: Values) -> Gpu:
    index, uuid = card
    used, free = _size(values, names.DCGM_MEMORY_USED), _size(values, names.DCGM_MEMORY_FREE)
    reserved, total = _size(values, names.DCGM_MEMORY_RESERVED) or 0.0, _size(values, names.DCGM_MEMORY_TOTAL)
    reasons = _plain(values, names.DCGM_CLOCK_REASONS)
    xid = _plain(values, names.DCGM_XID)
    return Gpu(
        index=int(index) if index.isdecimal() else position,
        uuid=uuid,
        source=DCGM,
        utilization=_share(values, names.DCGM_UTILIZATION),
        memory_used_bytes=used,
        memory_total_bytes=total if total or used is None or free is None else used + free + reserved,
        power_watts=_plain(values, names.DCGM_POWER),
        power_limit_watts=_plain(values, names.DCGM_POWER_LIMIT),
        power_default_limit_watts=_plain(values, names.DCGM_POWER_DEFAULT_LIMIT),
        temperature_celsius=_plain(values, names.DCGM_TEMPERATURE),
        sm_clock_hertz=_scaled(values, names.DCGM_SM_CLOCK, MEGA),
        max_sm_clock_hertz=_scaled(values, names.DCGM_MAX_SM_CLOCK, MEGA),
        throttle_reasons=None if reasons is None else int(reasons),
        energy_joules=_scaled(values, names.DCGM_ENERGY, MILLI, BLANK_FLOAT),
        graphics_active=_share(values, names.DCGM_GRAPHICS),
        sm_active=_share(values, names.DCGM_SM),
        sm_occupancy=_share(values, names.DCGM_OCCUPANCY),
        tensor_active=_share(values, names.DCGM_TENSOR),
        dram_active=_share(values, names.DCGM_DRAM),
        ecc_uncorrected=_plain(values, names.DCGM_ECC),
        remap_pending=_flag(values, names.DCGM_REMAP_PENDING),
        remap_failed=_flag(values, names.DCGM_REMAP_FAILED),
        xids=(int(xid),) if xid else (),
    )


def _plain(values: Values, spellings: Sequence[str], blank: float = BLANK_SHORT) -> float | None:
    found = next((values[name] for name in spellings if name in values), None)
    return found if found is not None and 0 <= found < blank else None


def _scaled(values: Values, spellings: Sequence[str], factor: float, blank: float = BLANK_SHORT) -> float | None:
    name = next((name for name in spellings if name in values), "")
    if name.endswith(_BASE_UNITS):
        factor, blank = 1.0, BLANK_FLOAT
    found = _plain(values, (name,), blank)
    return None if found is None else found * factor


def _size(values: Values, spellings: Sequence[str]) -> float | None:
    return _scaled(values, spellings, _MEBIBYTE)


def _flag(values: Values, spellings: Sequence[str]) -> bool | None:
    found = _plain(values, spellings)
    return None if found is None else found > 0


def _share(values: Values, spellings: Sequence[str]) -> float | None:
    """Return a share: names that end in RATIO and profiling fields are 0 to 1, the others percent."""
    for name in spellings:
        if name in values:
            ratio = name.endswith("_RATIO") or name.startswith(names.DCGM_PROFILING_PREFIX)
            value = values[name] * (1.0 if ratio else PERCENT)
            return min(value, 1.0) if 0 <= value <= HIGHEST_RATIO else None
    return None
