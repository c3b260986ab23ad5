"""Engine what-ifs against a real engine: each recorded pair is predicted from its first recording alone.

Two recordings are a pair where the deployment and its clients differ only in what `diag whatif` changes: slots, the KV
cache, the token budget, or the rate of requests and the length of prompts and answers. What is predicted is compared
with what the clients of the second recording measured: the time to the first piece of an answer, the time per token
after it, and the whole.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import permutations
from math import log
from pathlib import Path
from statistics import fmean, median
from typing import Any

from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.diagnosis.proposing import ChangeRequest, SourceEvidence, proposed
from diagnostics.errors import DiagError
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.performance import Estimate, Performance
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture

FOLDERS = (Path("fixtures/engine"), Path("fixtures/engine_unseen"))
GOAL = 0.15
# Of the engine's deployment, what a change may set; of its clients, what a change of load may.
_LIMITS = {
    "slots": "engine.engine.max_batch_size",
    "tokens": "engine.parameters.max_tokens_in_paged_kv_cache",
    "budget": "engine.engine.max_num_tokens",
}
_LOAD = ("rate", "words", "wanted")
_WORDS = {
    "slots": "slots",
    "tokens": "KV tokens",
    "budget": "token budget",
    "rate": "requests/s",
    "words": "prompt words",
    "wanted": "answer tokens",
}
# Seconds after the start that are no steady load, as where the recordings are labelled.
_SETTLING = 3.0
# Where more requests fail, the times of the others are no measurement of all.
_MOST_FAILED = 0.01
_FEWEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRecording:
    """A recording: its capture, what was deployed under which load, and what clients measured.

    Attributes:
        capture: the file.
        incident: the deployment and the load, as `tests.benchmark.engine.world.Incident` is written.
        requests: each with the second at which it was sent, the model, milliseconds, those to the first piece of the
            answer, and the status.

    """

    capture: Path
    incident: Mapping[str, Any]
    requests: Sequence[Sequence[Any]]

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.capture.name.removesuffix(".tar.xz")

    def changeable(self) -> dict[str, float]:
        """Return what a what-if may change: limits of the engine, and the load of the first clients."""
        engine, load = self.incident["deployment"]["engine"], self.incident["loads"][0]
        return {name: engine[name] for name in _LIMITS} | {name: load[name] for name in _LOAD}

    def fixed(self) -> str:
        """Return all that a pair must have in common, as text."""
        deployment, loads = dict(self.incident["deployment"]), [dict(one) for one in self.incident["loads"]]
        deployment["engine"] = {name: v for name, v in deployment["engine"].items() if name not in _LIMITS}
        if not any(load["model"] == "engine_beside" for load in loads):
            deployment["second"] = None  # an engine that nobody asks
        loads[0] = {name: v for name, v in loads[0].items() if name not in _LOAD}
        return json.dumps([deployment, loads], sort_keys=True)

    @property
    def undisturbed(self) -> bool:
        """Whether nothing but the clients was there, and the load stayed the same."""
        beside, loads = self.incident["beside"], self.incident["loads"]
        others = beside["turns"][0] or beside["memory_left"] or beside["hogs"] or beside["events"]
        steady = all(not (load["later"] or load["start"] or load["end"]) for load in loads)
        return not others and steady and loads[0]["model"] == "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What clients measured, in seconds: mean and 95th percentile to the first piece, per token, and in all."""

    first: float
    first_p95: float
    per_token: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePair:
    """Two recordings, of which the first predicts the second."""

    before: EngineRecording
    after: EngineRecording

    @property
    def names(self) -> tuple[str, str]:
        """The names of both."""
        return self.before.name, self.after.name

    @property
    def numbers(self) -> tuple[str, str]:
        """The numbers in both names."""
        first, second = (name.removeprefix("engine-") for name in self.names)
        return first, second

    @property
    def differs(self) -> tuple[str, ...]:
        """The names of what differs."""
        now, then = self.before.changeable(), self.after.changeable()
        return tuple(name for name in now if now[name] != then[name])

    @property
    def what(self) -> str:
        """What changes, in words."""
        now, then = self.before.changeable(), self.after.changeable()
        return ", ".join(f"{_WORDS[name]} {_plain(now[name])} → {_plain(then[name])}" for name in self.differs)

    def request(self) -> ChangeRequest:
        """Return the change as it is given to `diag whatif`."""
        now, then = self.before.changeable(), self.after.changeable()
        limits = tuple(f"{_LIMITS[name]}={then[name]:.0f}" for name in self.differs if name in _LIMITS)
        load = {name: f"{then[name] / now[name]:.6g}x" for name in self.differs if name in _LOAD}
        request = ChangeRequest(settings=limits, rate=load.get("rate"), entry="chat")
        return replace(request, prompt_tokens=load.get("words"), output_tokens=load.get("wanted"))


def _plain(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def recordings(folders: Sequence[Path]) -> list[EngineRecording]:
    """Return the undisturbed recordings of folders, as `tests.benchmark.engine` leaves them or packed."""
    found: list[EngineRecording] = []
    for folder in folders:
        packed = folder / "points.json.xz"
        points = json.loads(lzma.decompress(packed.read_bytes())) if packed.exists() else {}
        for path in folder.glob("*.points.json"):
            points[path.name.removesuffix(".points.json")] = json.loads(path.read_text("utf-8"))
        found += (
            EngineRecording(capture=path, incident=one["incident"], requests=one["requests"])
            for name, one in sorted(points.items())
            if (path := folder / f"{name}.tar.xz").exists()
        )
    return [one for one in found if one.undisturbed]


def pairs(found: Sequence[EngineRecording]) -> list[EnginePair]:
    """Return those that differ in one limit or in the load alone, and of which the second was measured."""
    every = (EnginePair(before=one, after=other) for one, other in permutations(found, 2))
    return [
        pair
        for pair in every
        if pair.before.fixed() == pair.after.fixed()
        and (len(pair.differs) == 1 or (pair.differs and not _LIMITS.keys() & set(pair.differs)))
        and measured(pair.after) is not None
    ]


def measured(recording: EngineRecording) -> Measured | None:
    """Return what the first clients measured; None where requests failed, or too few were answered."""
    wanted, model = recording.incident["loads"][0]["wanted"], recording.incident["loads"][0]["model"]
    own = [one for one in recording.requests if one[1] == model and one[0] >= _SETTLING]
    answered = [(ms / 1e3, first / 1e3) for _, _, ms, first, status in own if status == 200]
    if len(answered) < _FEWEST or len(own) - len(answered) > _MOST_FAILED * len(own):
        return None
    firsts = sorted(first for _, first in answered)
    return Measured(
        first=fmean(firsts),
        first_p95=firsts[int(0.95 * len(firsts))],
        per_token=fmean((whole - first) / (wanted - 1) for whole, first in answered),
        mean=fmean(whole for whole, _ in answered),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResult:
    """A pair, what was predicted of it, and what the second one's clients measured; `refused` is why nothing was."""

    pair: EnginePair
    predicted: Performance | None
    measured: Measured
    refused: str = ""

    def quantities(self) -> list[tuple[Estimate | None, float]]:
        """Return what was predicted, None for no number, and what was measured, of each of `_QUANTITIES`."""
        made, seen = self.predicted, self.measured
        engine = made.engine if made else None
        return [
            (engine.first_token if engine else None, seen.first),
            (engine.first_token_p95 if engine else None, seen.first_p95),
            (engine.per_token if engine else None, seen.per_token),
            (made.mean if made else None, seen.mean),
        ]


_QUANTITIES = ("TTFT", "TTFT p95", "per token", "whole")


def evidence_of(recording: EngineRecording) -> SourceEvidence:
    """Return what a capture says, without what its clients measured."""
    window = window_of(open_capture(recording.capture).scrapes())
    facts = WindowFacts(start=window.start, end=window.end, sources=(recording.name,))
    return SourceEvidence(evidence=WindowEvidence(window), window=facts)


def result(pair: EnginePair) -> EngineResult:
    """Return the prediction of a pair, of whose second recording nothing is read but what clients measured."""
    seen = measured(pair.after)
    assert seen is not None
    try:
        forecast = proposed(evidence_of(pair.before), pair.request()).forecast
    except DiagError as error:
        hint = f". Next: {error.hint}" if error.hint else ""
        return EngineResult(pair=pair, predicted=None, measured=seen, refused=f"{error.what}{hint}")
    return EngineResult(pair=pair, predicted=forecast.predicted, measured=seen)


def results(wanted: Sequence[EnginePair], processes: int | None = None) -> list[EngineResult]:
    """Return the prediction of each pair, made by as many processes."""
    if len(wanted) < 2 or processes == 1:
        return [result(pair) for pair in wanted]
    with ProcessPoolExecutor(max_workers=processes or os.cpu_count()) as pool:
        return list(pool.map(result, wanted))


def engine_lines(results: Sequence[EngineResult]) -> Iterator[str]:
    """Yield the tables: how many were within the goal and inside their interval, each pair, and what was refused."""
    yield from _summary(results)
    yield ""
    yield from _table("from → to", ("change", *_QUANTITIES))
    yield from (pair_line(one) for one in results if one.predicted is not None)
    refused: dict[str, list[str]] = {}
    for one in results:
        if one.predicted is None:
            refused.setdefault(one.refused, []).append(f"{' → '.join(one.pair.numbers)} ({one.pair.what})")
    if refused:
        yield from ("", "Not predicted, with the reason that `diag whatif` states:", "")
    for reason, which in refused.items():
        yield f"- {reason}: {'; '.join(which)}"


def _summary(results: Sequence[EngineResult]) -> Iterator[str]:
    predicted = [one for one in results if one.predicted is not None]
    stable = [one for one in predicted if one.predicted is not None and one.predicted.stable]
    yield (
        f"{len(results)} pairs: {len(stable)} with numbers, {len(predicted) - len(stable)} predicted not to keep up, "
        f"{len(results) - len(predicted)} refused."
    )
    yield ""
    heads = ("numbers", "median error", f"within {GOAL:.0%}", "inside the 90 % interval", "its width", "its score")
    yield from _table("", heads)
    for at, name in enumerate(_QUANTITIES):
        known = [(made, seen) for one in stable for made, seen in [one.quantities()[at]] if made is not None]
        errors = sorted(abs(made.value / seen - 1) for made, seen in known)
        middle = f"{median(errors):.0%}" if errors else ""
        inside, near = sum(_is_inside(made, seen) for made, seen in known), sum(one <= GOAL for one in errors)
        score = f"{fmean(score_of(made, seen) for made, seen in known):.2f}" if known else ""
        width = f"×{median(_width(made) for made, _ in known):.2g}" if known else ""
        counts = (f"{near} of {len(known)}", f"{inside} of {len(known)}")
        yield _row(name, (str(len(known)), middle, *counts, width, score))


def score_of(made: Estimate, seen: float) -> float:
    """Return the interval score of a forecast's logarithm, less is better (Gneiting and Raftery 2007, equation 43).

    It is the width, and where the interval missed, by how much, times two over the part that may be outside.
    """
    low, high, true = log(made.low), log(made.high or made.low * _OPEN), log(seen)
    return high - low + 2 / _OUTSIDE * (max(low - true, 0.0) + max(true - high, 0.0))


# An interval without an upper end scores as one whose ends differ by this factor.
_OPEN = 1000.0
_OUTSIDE = 0.1


def _width(made: Estimate) -> float:
    return (made.high or made.low * _OPEN) / made.low


def pair_line(one: EngineResult) -> str:
    """Return a row: what was measured of each quantity, and what was predicted of it."""
    cells = [_cell(made, seen, one) for made, seen in one.quantities()]
    return _row(" → ".join(one.pair.numbers), (one.pair.what, *cells))


def _cell(made: Estimate | None, seen: float, one: EngineResult) -> str:
    if made is None:
        stable = one.predicted is None or one.predicted.stable
        return f"{_ms(seen)}; {'no number' if stable else 'cannot keep up'}"
    high = "or more" if made.high is None else f"to {_ms(made.high)}"
    outside = "" if _is_inside(made, seen) else ", outside"
    return f"{_ms(seen)}; {_ms(made.value)} ({_ms(made.low)} {high}), {made.value / seen - 1:+.0%}{outside}"


def _table(first: str, heads: Sequence[str]) -> Iterator[str]:
    yield _row(first, heads)
    yield _row("---", ["---"] * len(heads))


def _row(first: str, cells: Sequence[str]) -> str:
    return f"| {' | '.join((first, *cells))} |"


def _is_inside(made: Estimate, seen: float) -> bool:
    return made.low <= seen <= (float("inf") if made.high is None else made.high)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
