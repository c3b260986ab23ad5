"""The same recording with less in it (ablations), and the same recording told otherwise (perturbations)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from diagnostics.wire.records import BodyKind, Scrape
from tests.captures.resetting import with_reset_in_the_middle

Scrapes = Sequence[Scrape]
Variation = Callable[[Scrapes], Scrapes]
_COUNTED = (BodyKind.METRICS, BodyKind.STATISTICS)


def without(*kinds: BodyKind) -> Variation:
    """Return the variation that leaves out all bodies of some kinds."""
    return lambda scrapes: [scrape for scrape in scrapes if scrape.kind not in kinds]


def _every_third(scrapes: Scrapes) -> Scrapes:
    kept: list[Scrape] = []
    for kind in BodyKind:
        same = sorted((s for s in scrapes if s.kind is kind), key=lambda scrape: scrape.at)
        timed = kind in (*_COUNTED, BodyKind.INDEX, BodyKind.NVML, BodyKind.HOST)
        kept += same[::3] if timed else same
    return kept


ABLATIONS: Mapping[str, Variation] = {
    "no-statistics": without(BodyKind.STATISTICS),
    "no-traces": without(BodyKind.TRACES),
    "no-nvml": without(BodyKind.NVML),
    "no-configuration": without(BodyKind.CONFIG, BodyKind.REPOSITORY),
    "no-host": without(BodyKind.HOST),
    "no-metrics": without(BodyKind.METRICS),
    "no-index": without(BodyKind.INDEX),
    "every-third": _every_third,
    "reset": with_reset_in_the_middle,
}


def model_names(scrapes: Scrapes) -> list[str]:
    """Return the names of all models that are configured or counted."""
    configured = {scrape.name for scrape in scrapes if scrape.kind is BodyKind.CONFIG}
    counted = {
        row["name"]
        for scrape in scrapes
        if scrape.kind is BodyKind.STATISTICS and scrape.body
        for row in json.loads(scrape.body)["model_stats"]
    }
    return sorted(configured | counted)


def renamed(name: str) -> str:
    """Return the name that `rename_models` gives a model."""
    return f"prod_{name[::-1]}"


def rename_models(scrapes: Scrapes) -> Scrapes:
    """Give every model another name wherever it is named."""
    names = model_names(scrapes)
    pattern = re.compile(f'"({"|".join(map(re.escape, names))})"'.encode())

    def rename(scrape: Scrape) -> Scrape:
        body = scrape.body and pattern.sub(lambda found: f'"{renamed(found[1].decode())}"'.encode(), scrape.body)
        first, slash, rest = scrape.name.partition("/")
        return replace(scrape, body=body, name=f"{renamed(first)}{slash}{rest}" if first in names else scrape.name)

    return [rename(scrape) for scrape in scrapes if scrape.kind is not BodyKind.TRACES]


def shift_times(scrapes: Scrapes) -> Scrapes:
    """Move the whole recording 40 days."""
    days = 40 * 86_400.0

    def shift(scrape: Scrape) -> Scrape:
        body = scrape.body
        if body and scrape.kind in (BodyKind.NVML, BodyKind.HOST):
            sample = json.loads(body)
            body = json.dumps({**sample, "t": sample["t"] + days}).encode()
        return replace(scrape, at=scrape.at + days, mono=scrape.mono + days, body=body)

    return [shift(scrape) for scrape in scrapes]


def shuffle_order(scrapes: Scrapes) -> Scrapes:
    """List series and models in another order in every body."""
    draw = random.Random(5)

    def shuffle(scrape: Scrape) -> Scrape:
        if scrape.body and scrape.kind is BodyKind.METRICS:
            return replace(scrape, body=_shuffled_page(scrape.body, draw))
        if scrape.body and scrape.kind is BodyKind.STATISTICS:
            answer = json.loads(scrape.body)
            for row in answer["model_stats"]:
                draw.shuffle(row.get("batch_stats", []))
            draw.shuffle(answer["model_stats"])
            return replace(scrape, body=json.dumps(answer).encode())
        return scrape

    return [shuffle(scrape) for scrape in scrapes]


def _shuffled_page(body: bytes, draw: random.Random) -> bytes:
    lines: list[bytes] = []
    for _, block in groupby(body.splitlines(keepends=True), key=lambda line: line.startswith(b"#")):
        found = list(block)
        if not found[0].startswith(b"#"):
            draw.shuffle(found)
        lines += found
    return b"".join(lines)


def _middle(scrapes: Scrapes, kind: BodyKind) -> Scrape | None:
    same = sorted((scrape for scrape in scrapes if scrape.kind is kind), key=lambda scrape: scrape.at)
    return same[len(same) // 2] if same else None


def _middles(scrapes: Scrapes) -> list[Scrape]:
    return [found for kind in _COUNTED if (found := _middle(scrapes, kind)) is not None]


def duplicate_a_scrape(scrapes: Scrapes) -> Scrapes:
    """Say one read twice."""
    return [*scrapes, *_middles(scrapes)]


def set_clock_back(scrapes: Scrapes) -> Scrapes:
    """Let the wall clock of one read be half a minute behind, as when a clock is corrected; the steady one goes on."""
    odd = _middles(scrapes)
    return [replace(scrape, at=scrape.at - 30.0) if scrape in odd else scrape for scrape in scrapes]


def set_recorder_clock_back(scrapes: Scrapes) -> Scrapes:
    """Let a recorder without a steady clock file the middle read a quarter of the recording too early."""
    odd, times = _middles(scrapes), [scrape.at for scrape in scrapes if scrape.kind in _COUNTED]
    early = (max(times) - min(times)) / 4
    return [
        replace(scrape, at=scrape.at - early, mono=scrape.mono - early) if scrape in odd else scrape
        for scrape in scrapes
    ]


def truncate_a_body(scrapes: Scrapes) -> Scrapes:
    """Cut one body of each kind in two, inside a number of a counter."""
    odd = _middles(scrapes)
    return [replace(scrape, body=_cut(scrape.body)) if scrape in odd else scrape for scrape in scrapes]


def _cut(body: bytes | None) -> bytes | None:
    if body is None:
        return None
    numbers = [found for found in re.finditer(rb"\d{3,}", body) if found.start() > len(body) // 2]
    return body[: numbers[0].start() + 1] if numbers else body[: len(body) // 2]


_IDLE = tuple(f"idle-{i}" for i in range(20))


def add_idle_models(scrapes: Scrapes) -> Scrapes:
    """Add twenty models that nobody calls."""

    def add(scrape: Scrape) -> Scrape:
        if scrape.body and scrape.kind is BodyKind.METRICS:
            return replace(scrape, body=b"".join(_with_idle_series(scrape.body)))
        if scrape.body and scrape.kind is BodyKind.STATISTICS:
            answer = json.loads(scrape.body)
            answer["model_stats"] += [{"name": name, "version": "1", "inference_stats": {}} for name in _IDLE]
            return replace(scrape, body=json.dumps(answer).encode())
        return scrape

    # The configuration of a model that exists, under another name: plausible, and cheap to make.
    template = next((s for s in scrapes if s.kind is BodyKind.CONFIG and s.body and b'"ensemble"' not in s.body), None)
    configs = [_renamed_config(template, name) for name in _IDLE] if template else []
    return [*(add(scrape) for scrape in scrapes), *configs]


def _renamed_config(template: Scrape, name: str) -> Scrape:
    return replace(template, name=name, body=json.dumps({**json.loads(template.body or b"{}"), "name": name}).encode())


def _with_idle_series(body: bytes) -> Iterator[bytes]:
    """Yield the page, each per-model counter family preceded by the idle models' series."""
    for line in body.splitlines(keepends=True):
        yield line
        words = line.split()
        if line.startswith(b"# TYPE nv_inference") and words[-1] == b"counter" and not words[2].endswith(b"failure"):
            yield from (f'{words[2].decode()}{{model="{name}",version="1"}} 0\n'.encode() for name in _IDLE)


# Where the clock itself was wrong, what arrived when is in doubt: to say nothing is then right too.
FALSE_CLOCKS = frozenset({"clock-back", "recorder-clock-back"})
PERTURBATIONS: Mapping[str, Variation] = {
    "renamed": rename_models,
    "shifted": shift_times,
    "shuffled": shuffle_order,
    "duplicated": duplicate_a_scrape,
    "clock-back": set_clock_back,
    "recorder-clock-back": set_recorder_clock_back,
    "truncated": truncate_a_body,
    "idle-models": add_idle_models,
}


# --- parts of what is read that someone leaves out: a proxy, a relabeling rule, a reader that came late or stopped

FAMILIES = (
    "nv_inference_request_success",
    "nv_inference_request_failure",
    "nv_inference_count",
    "nv_inference_exec_count",
    "nv_inference_request_duration_us",
    "nv_inference_queue_duration_us",
    "nv_inference_compute_input_duration_us",
    "nv_inference_compute_infer_duration_us",
    "nv_inference_compute_output_duration_us",
    "nv_inference_pending_request_count",
)
STATISTICS_FIELDS = ("batch_stats", "execution_count", "queue", "compute_infer", "compute_output", "success", "fail")


def _rewritten(scrapes: Scrapes, kind: BodyKind, rewrite: Callable[[bytes], bytes]) -> Scrapes:
    return [replace(s, body=rewrite(s.body)) if s.kind is kind and s.body else s for s in scrapes]


def without_family(family: str) -> Variation:
    """Return the variation that leaves a family out of all metrics pages."""
    lines = re.compile(rf"^(# \w+ )?{family}[ {{].*\n".encode(), re.MULTILINE)
    return lambda scrapes: _rewritten(scrapes, BodyKind.METRICS, lambda body: lines.sub(b"", body))


def without_field(field: str) -> Variation:
    """Return the variation that leaves a field out of all rows of statistics."""

    def short(body: bytes) -> bytes:
        answer = json.loads(body)
        for row in answer["model_stats"]:
            row.pop(field, None)
            row.get("inference_stats", {}).pop(field, None)
        return json.dumps(answer).encode()

    return lambda scrapes: _rewritten(scrapes, BodyKind.STATISTICS, short)


def without_steps(scrapes: Scrapes) -> Scrapes:
    """Leave the steps out of the configurations of ensembles."""

    def short(body: bytes) -> bytes:
        config = json.loads(body)
        return json.dumps({**config, "ensemble_scheduling": {}} if "ensemble_scheduling" in config else config).encode()

    return _rewritten(without(BodyKind.REPOSITORY)(scrapes), BodyKind.CONFIG, short)


def read_in_half(kind: BodyKind, *, later: bool) -> Variation:
    """Return the variation in which a source is read in one half of the recording only."""

    def halved(scrapes: Scrapes) -> Scrapes:
        times = [scrape.at for scrape in scrapes if scrape.kind in _COUNTED]
        middle = (min(times) + max(times)) / 2 if times else 0.0
        return [scrape for scrape in scrapes if scrape.kind is not kind or (scrape.at >= middle) is later]

    return halved


HALF_SEEN: Mapping[str, Variation] = {
    "ensembles without steps": without_steps,
    **{f"pages without {family}": without_family(family) for family in FAMILIES},
    **{f"statistics without {field}": without_field(field) for field in STATISTICS_FIELDS},
    **{
        f"{kind} {'begins late' if later else 'ends half way'}": read_in_half(kind, later=later)
        for kind in (BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.INDEX, BodyKind.TRACES, BodyKind.HOST)
        for later in (False, True)
    },
}
