"""One sample of a machine's GPUs, as recorded from NVML and GPM.

Percent, milliwatts, millijoules and megahertz become ratios, watts, joules and hertz.
What the card or the driver does not give, and what cannot be true, is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from diagnostics import names
from diagnostics.errors import MalformedBody
from diagnostics.wire.exposition import ExpositionReader, Snapshot
from diagnostics.wire.json_body import JsonFields, decimal, decode_object, excerpt, number

NVML, DCGM, METRICS = "nvml", "dcgm", "metrics"
PERCENT = 1e-2
MILLI = 1e-3
MEGA = 1e6
HIGHEST_RATIO = 1.5
"""Rounding and overlapping sample periods take a share a little past 1; more than this is no share."""
BLANK_FLOAT = 140737488355328.0
BLANK_INTEGER = float(0x7FFFFFFFFFFFFFF0)
"""DCGM's values for "no data" start here (`dcgmlib/dcgm_structs.h`); the 32-bit one is `BLANK_SHORT`."""
BLANK_SHORT = float(0x7FFFFFF0)
HIGHEST_BYTES = 2.0**50
"""1 PiB: no card holds as much, and the blank values lie above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU at one instant. Every number is None where the card, the driver or the rights give none.

    Attributes:
        index: NVML's index.
        uuid: joins Triton's `gpu_uuid` and DCGM's `UUID`; empty when unknown.
        name: the product.
        utilization: share of the sample period in which any kernel ran, not how full the card is.
        memory_used_bytes: memory in use by anybody.
        memory_total_bytes: memory of the card.
        power_watts: draw.
        power_limit_watts: the enforced limit.
        temperature_celsius: of the chip.
        sm_clock_hertz: the clock now.
        max_sm_clock_hertz: the highest clock of the card.
        power_default_limit_watts: the limit that the card came with; below it somebody lowered the cap.
        throttle_reasons: NVML's bit mask of clock event reasons.
        energy_joules: total since the driver was loaded, for deltas.
        mig: whether the card is divided into instances, or one of them.
        instance: GPU instance id (DCGM's `GPU_I_ID`) of the part that this is of; None for a card.
        parts: the instances of a divided card, each with its own memory, processes and activity.
        process_memory: bytes by process id; a value is None where it is withheld.
        process_names: the kernel's name by process id, where the recorder saw it.
        process_sm: share of the SMs' time by process id; a process without a recent sample is absent. None when
            nothing was asked or answered.
        graphics_active: share of time in which the graphics or compute engine was busy.
        sm_active: mean share of SMs busy.
        sm_occupancy: mean share of warp slots in use.
        tensor_active: mean share of time the tensor pipes were busy.
        dram_active: share of memory bandwidth in use.
        ecc_uncorrected: uncorrected memory errors since the driver was loaded.
        remap_pending: whether bad rows of memory wait for a reset to be replaced.
        remap_failed: whether replacing a bad row has failed: the card is to be exchanged.
        xids: codes of the driver's errors since the last sample (NVML) or the last one ever (DCGM, 0 is none).
        withheld: why an answer is missing, by the recorder's key; `device` when the card did not answer at all.
        source: `nvml`, `dcgm` or `metrics` (Triton's own gauges).

    """

    index: int
    uuid: str = ""
    name: str = ""
    utilization: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    sm_clock_hertz: float | None = None
    max_sm_clock_hertz: float | None = None
    power_default_limit_watts: float | None = None
    throttle_reasons: int | None = None
    energy_joules: float | None = None
    mig: bool | None = None
    instance: int | None = None
    parts: tuple[Gpu, ...] = ()
    process_memory: Mapping[int, int | None] = field(default_factory=dict)
    process_names: Mapping[int, str] = field(default_factory=dict)
    process_sm: Mapping[int, float] | None = None
    graphics_active: float | None = None
    sm_active: float | None = None
    sm_occupancy: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    ecc_uncorrected: float | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    xids: tuple[int, ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict)
    source: str = NVML


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """The GPUs of one machine at one instant; `at` is Unix seconds, None when the body does not say."""

    at: float | None
    driver_version: str = ""
    gpus: tuple[Gpu, ...] = ()


MOST_CARDS, MOST_PARTS, MOST_OF_A_CARD = 256, 64, 4_096
"""GPUs of a machine, instances of a card, and processes of one: several times what any has. Each is many objects."""


def parse_nvml(body: bytes) -> GpuSample:
    """Return the sample in `body`.

    Raises:
        MalformedBody: it is no NVML sample, which has at least a list of GPUs, or lists more than any machine has.

    """
    fields = decode_object(body, "the NVML sample")
    if not isinstance(fields.raw("gpus"), list):
        raise MalformedBody(f"the NVML sample lists no GPUs: {excerpt(body)}")
    _check_counts(fields)
    return GpuSample(
        at=number(fields.raw("t")),
        driver_version=fields.text("driver_version"),
        gpus=tuple(_gpu(gpu, position) for position, gpu in enumerate(fields.children("gpus"))),
    )


def _check_counts(fields: JsonFields) -> None:
    _check_count(fields, "gpus", MOST_CARDS)
    for card in fields.children("gpus"):
        _check_count(card, "mig_instances", MOST_PARTS)
        for one in (card, *card.children("mig_instances")):
            for key in ("processes", "process_utilization", "xids"):
                _check_count(one, key, MOST_OF_A_CARD)


def _check_count(fields: JsonFields, key: str, most: int) -> None:
    listed = fields.raw(key)
    if isinstance(listed, list) and len(listed) > most:
        raise MalformedBody(f"the NVML sample lists {len(listed):,} {key}, which no machine has: {most:,} are read")


def _gpu(fields: JsonFields, position: int) -> Gpu:
    gpm, rows = fields.child("gpm"), fields.child("remapped_rows")
    index = fields.integer("index", position)
    return Gpu(
        index=index,
        uuid=fields.text("uuid"),
        name=fields.text("name"),
        utilization=_ratio(fields, "utilization_gpu_percent"),
        memory_used_bytes=_size(fields.raw("memory_used_bytes")),
        memory_total_bytes=_size(fields.raw("memory_total_bytes")),
        power_watts=_scaled(fields, "power_mw", MILLI),
        power_limit_watts=_scaled(fields, "power_limit_mw", MILLI),
        temperature_celsius=_scaled(fields, "temperature_c", 1.0),
        sm_clock_hertz=_scaled(fields, "sm_clock_mhz", MEGA),
        max_sm_clock_hertz=_scaled(fields, "max_sm_clock_mhz", MEGA),
        power_default_limit_watts=_scaled(fields, "power_default_limit_mw", MILLI),
        throttle_reasons=_mask(fields.raw("throttle_reasons")),
        energy_joules=_energy(fields),
        mig=_mig(fields.raw("mig_mode")),
        instance=_instance(fields),
        parts=tuple(replace(_gpu(part, index), index=index, mig=True) for part in fields.children("mig_instances")),
        process_memory=_process_memory(fields.children("processes")),
        process_names=_process_names(fields.children("processes")),
        process_sm=_process_sm(fields),
        graphics_active=_ratio(gpm, "graphics_util"),
        sm_active=_ratio(gpm, "sm_util"),
        sm_occupancy=_ratio(gpm, "sm_occupancy"),
        tensor_active=_ratio(gpm, "tensor_util"),
        dram_active=_ratio(gpm, "dram_bw_util"),
        ecc_uncorrected=_scaled(fields, "ecc_uncorrected", 1.0),
        remap_pending=_flag(rows.raw("pending")),
        remap_failed=_flag(rows.raw("failure")),
        xids=_codes(fields.raw("xids")),
        withheld={key: str(why) for key, why in fields.child("errors").items()},
    )


def _ratio(fields: JsonFields, key: str) -> float | None:
    value = number(fields.raw(key))
    if value is None or not 0 <= value * PERCENT <= HIGHEST_RATIO:
        return None
    return min(1.0, value * PERCENT)


def _scaled(fields: JsonFields, key: str, factor: float) -> float | None:
    value = number(fields.raw(key))
    return value * factor if value is not None and 0 <= value < BLANK_SHORT else None


def _energy(fields: JsonFields) -> float | None:
    """A counter that passes the 32-bit blank value in good health: only the larger ones mean "no data"."""
    value = number(fields.raw("total_energy_mj"))
    return value * MILLI if value is not None and 0 <= value < BLANK_FLOAT else None


def _size(value: object) -> float | None:
    found = number(value)
    return found if found is not None and 0 <= found < HIGHEST_BYTES else None


def _mask(value: object) -> int | None:
    found = number(value)
    return int(found) if found is not None and 0 <= found < BLANK_INTEGER else None


def _mig(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {0: False, 1: True}.get(value) if isinstance(value, int) else None


def _instance(fields: JsonFields) -> int | None:
    value = number(fields.raw("gpu_instance"))
    return int(value) if value is not None and 0 <= value < BLANK_SHORT else None


def _process_memory(processes: tuple[JsonFields, ...]) -> Mapping[int, int | None]:
    sizes = {process.integer("pid"): _size(process.raw("used_memory_bytes")) for process in processes}
    return {pid: None if size is None else int(size) for pid, size in sizes.items()}


def _process_names(processes: tuple[JsonFields, ...]) -> Mapping[int, str]:
    names = {process.integer("pid"): process.text("name") for process in processes}
    return {pid: name for pid, name in names.items() if name}


def _process_sm(fields: JsonFields) -> Mapping[int, float] | None:
    if not isinstance(fields.raw("process_utilization"), list):
        return None
    shares = {p.integer("pid"): _ratio(p, "sm_percent") for p in fields.children("process_utilization")}
    return {pid: share for pid, share in shares.items() if share is not None}


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _codes(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(int(code) for code in map(number, value) if code is not None and 0 < code < BLANK_SHORT)


_MEBIBYTE = 2.0**20
# Names that end in a base unit hold it as it is.
_BASE_UNITS = ("_HERTZ", "_BYTES")
Card = tuple[str, str]
Values = dict[str, float]


def parse_dcgm(body: bytes, at: float) -> GpuSample:
    """Return the sample in a page that was read at Unix second `at`; a page without DCGM's families has no GPU.

    Raises:
        MalformedBody: it is no page of metrics, or lists more GPUs than any machine has.

    """
    found = sample_of(ExpositionReader().read(body), at)
    if len(found.gpus) > MOST_CARDS:
        raise MalformedBody(f"the page lists {len(found.gpus):,} GPUs, which no machine has: {MOST_CARDS:,} are read")
    return found


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
    gpu = _gpu_of_page(card, position, values)
    if not parts:
        return gpu
    each = {part: _gpu_of_page(card, position, of_part) for part, of_part in sorted(parts.items())}
    instances = tuple(replace(one, mig=True, instance=decimal(part)) for part, one in each.items())
    return replace(gpu, mig=True, parts=instances)


def _gpu_of_page(card: Card, position: int, values: Values) -> Gpu:
    index, uuid = decimal(card[0]), card[1]
    used, free = _dcgm_bytes(values, names.DCGM_MEMORY_USED), _dcgm_bytes(values, names.DCGM_MEMORY_FREE)
    reserved, total = (
        _dcgm_bytes(values, names.DCGM_MEMORY_RESERVED) or 0.0,
        _dcgm_bytes(values, names.DCGM_MEMORY_TOTAL),
    )
    reasons = _plain(values, names.DCGM_CLOCK_REASONS)
    xid = _plain(values, names.DCGM_XID)
    return Gpu(
        index=position if index is None else index,
        uuid=uuid,
        source=DCGM,
        utilization=_share(values, names.DCGM_UTILIZATION),
        memory_used_bytes=used,
        memory_total_bytes=total if total or used is None or free is None else used + free + reserved,
        power_watts=_plain(values, names.DCGM_POWER),
        power_limit_watts=_plain(values, names.DCGM_POWER_LIMIT),
        power_default_limit_watts=_plain(values, names.DCGM_POWER_DEFAULT_LIMIT),
        temperature_celsius=_plain(values, names.DCGM_TEMPERATURE),
        sm_clock_hertz=_dcgm_scaled(values, names.DCGM_SM_CLOCK, MEGA),
        max_sm_clock_hertz=_dcgm_scaled(values, names.DCGM_MAX_SM_CLOCK, MEGA),
        throttle_reasons=None if reasons is None else int(reasons),
        energy_joules=_dcgm_scaled(values, names.DCGM_ENERGY, MILLI, BLANK_FLOAT),
        graphics_active=_share(values, names.DCGM_GRAPHICS),
        sm_active=_share(values, names.DCGM_SM),
        sm_occupancy=_share(values, names.DCGM_OCCUPANCY),
        tensor_active=_share(values, names.DCGM_TENSOR),
        dram_active=_share(values, names.DCGM_DRAM),
        ecc_uncorrected=_plain(values, names.DCGM_ECC),
        remap_pending=_dcgm_flag(values, names.DCGM_REMAP_PENDING),
        remap_failed=_dcgm_flag(values, names.DCGM_REMAP_FAILED),
        xids=(int(xid),) if xid else (),
    )


def _plain(values: Values, spellings: Sequence[str], blank: float = BLANK_SHORT) -> float | None:
    found = next((values[name] for name in spellings if name in values), None)
    return found if found is not None and 0 <= found < blank else None


def _dcgm_scaled(values: Values, spellings: Sequence[str], factor: float, blank: float = BLANK_SHORT) -> float | None:
    name = next((name for name in spellings if name in values), "")
    if name.endswith(_BASE_UNITS):
        factor, blank = 1.0, BLANK_FLOAT
    found = _plain(values, (name,), blank)
    return None if found is None else found * factor


def _dcgm_bytes(values: Values, spellings: Sequence[str]) -> float | None:
    return _dcgm_scaled(values, spellings, _MEBIBYTE)


def _dcgm_flag(values: Values, spellings: Sequence[str]) -> bool | None:
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
