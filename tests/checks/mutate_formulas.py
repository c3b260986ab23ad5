"""Breaks the central formulas one at a time and lists those that no test notices.

Run as `python -m tests.checks.mutate_formulas [--jobs N] [--few] [part of a name …]`; `--few` takes the handful that
every run of the tests judges. It prints a total and exits 1 when a broken formula goes unnoticed.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tests.checks.mutation import ROOT, Mutant, survivors


@dataclass(frozen=True, slots=True)
class Broken:
    """One formula: its module, what is wrong with it, the text that stands there once, and what replaces it."""

    module: str
    what: str
    text: str
    instead: str
    few: bool = False

    def mutant(self) -> Mutant:
        """Return it as a mutant of its module."""
        return Mutant(path=ROOT / "diagnostics" / self.module, what=self.what, broken=self.parsed)

    def parsed(self, source: str) -> ast.Module:
        """Return the module with the formula broken.

        Raises:
            ValueError: the text does not stand there exactly once: the formula was rewritten, and so must this be.

        """
        if source.count(self.text) != 1:
            raise ValueError(f"{self.module}: {self.text!r} stands there {source.count(self.text)} times")
        return ast.parse(source.replace(self.text, self.instead))


_BUSY = "signals/executions.py"
_COUNTING = "signals/counting.py"
_TRITON = "signals/triton.py"
_LEDGER = "evidence/ledger.py"
_CLAIMING = "diagnosis/finding.py"
_FINDING = "diagnosis/finding.py"
FORMULAS = (
    # Busy share of a model's instances.
    Broken(
        _BUSY,
        "busy share books a batch once per request",
        "    busy = delta.occupied\n    if executions <= 0:",
        "    busy = sum(size * batch.seconds for size, batch in delta.batches.items())\n    if executions <= 0:",
        few=True,
    ),
    Broken(
        _BUSY,
        "busy share includes the queue",
        "share = (busy + executions * DISPATCH_GAP) / lanes",
        "share = (busy + executions * DISPATCH_GAP + delta.values[Counter.QUEUE_SECONDS]) / lanes",
        few=True,
    ),
    Broken(
        _BUSY,
        "busy share from the summed durations",
        "share = (busy + executions * DISPATCH_GAP) / lanes",
        "share = (compute_seconds(delta) + executions * DISPATCH_GAP) / lanes",
        few=True,
    ),
    Broken(
        _BUSY,
        "busy share counts a dispatch gap per request",
        "share = (busy + executions * DISPATCH_GAP) / lanes",
        "share = (busy + delta.values[Counter.SUCCESS] * DISPATCH_GAP) / lanes",
    ),
    Broken(_BUSY, "busy share without dispatch gap", "(busy + executions * DISPATCH_GAP) / lanes", "busy / lanes"),
    Broken(
        _BUSY,
        "busy share of all instances as if of one",
        "lanes = delta.seconds * instances.value\n    share",
        "lanes = delta.seconds\n    share",
        few=True,
    ),
    Broken(_BUSY, "busy share certain at its edges", "edge = busy / executions / delta.seconds", "edge = 0.0"),
    Broken(
        _BUSY,
        "bound from successes instead of executions",
        "(per_request * executions + executions * DISPATCH_GAP)",
        "(per_request * requests + requests * DISPATCH_GAP)",
    ),
    Broken(
        _BUSY,
        "bound of all instances as if of one",
        "compute, lanes = compute_seconds(delta), delta.seconds * instances.value",
        "compute, lanes = compute_seconds(delta), delta.seconds",
    ),
    Broken(_BUSY, "bound above one", "min(bound, 1.0) if not exact else bound", "bound"),
    Broken(
        _BUSY,
        "bound without its lower end",
        "compute / max(view.config.max_batch_size if view.config else 1, 1) / lanes",
        "bound",
    ),
    Broken(
        _BUSY,
        "execution time per request",
        "mean_of(seconds, executions, Unit.SECONDS, STATISTICS, delta)",
        "mean_of(seconds, delta.values[Counter.SUCCESS], Unit.SECONDS, STATISTICS, delta)",
    ),
    Broken("signals/settings.py", "instances once for all GPUs", "group.count * len(group.gpus)", "group.count"),
    Broken("signals/settings.py", "instances once for all visible GPUs", "group.count * gpus", "group.count"),
    # Counters.
    Broken(
        "window/points.py",
        "the counter itself instead of its increase",
        "after.values.less(before.values)",
        "after.values.plain()",
        few=True,
    ),
    Broken(
        "window/points.py",
        "seconds of the last step instead of all",
        "seconds=sum([step.seconds for step in steps])",
        "seconds=steps[-1].seconds",
    ),
    Broken(_COUNTING, "events instead of events per second", "value / delta.seconds,", "value,"),
    Broken(_COUNTING, "a mean that is a sum", "value = top / events", "value = top"),
    Broken(_COUNTING, "a mean without its interval", "spread = value * 1.96 / math.sqrt(events)", "spread = 0.0"),
    Broken(
        _COUNTING,
        "a rate without its interval",
        "spread = 1.96 * math.sqrt(max(value, 1.0))",
        "spread = 0.0",
    ),
    Broken(
        _TRITON,
        "queue per execution instead of per request",
        "per(source, counter, Counter.SUCCESS, Unit.SECONDS)",
        "per(source, counter, Counter.EXECUTIONS, Unit.SECONDS)",
        few=True,
    ),
    Broken(
        _TRITON,
        "batch size as requests per execution",
        "per(source, Counter.INFERENCES, Counter.EXECUTIONS, Unit.COUNT)",
        "per(source, Counter.SUCCESS, Counter.EXECUTIONS, Unit.COUNT)",
        few=True,
    ),
    Broken(
        _TRITON,
        "a client's batch as items per execution",
        "per(source, Counter.INFERENCES, Counter.SUCCESS, Unit.COUNT)",
        "per(source, Counter.INFERENCES, Counter.EXECUTIONS, Unit.COUNT)",
    ),
    Broken(_TRITON, "arrivals without the backlog", "max(completed.value + growth, 0.0)", "completed.value"),
    # Engine and device.
    Broken(
        "signals/engine.py",
        "a wait that is a number of requests",
        "return (waiting / REQUEST_RATE.read(view)).with_unit(Unit.SECONDS)",
        "return waiting.with_unit(Unit.SECONDS)",
    ),
    Broken(
        "signals/engine.py",
        "gauges that stand still count as waiting",
        "[s.waiting if id(s) in live else 0.0 for s in engine.samples if s.waiting is not None]",
        "[s.waiting for s in engine.samples if s.waiting is not None]",
    ),
    Broken(
        "signals/engine.py",
        "slots in use of an engine without a queue",
        "scheduled = [sample.scheduled for sample in engine.waiting if sample.scheduled is not None]",
        "scheduled = [sample.scheduled for sample in engine.live if sample.scheduled is not None]",
    ),
    Broken("signals/device.py", "headroom by the emptiest resource", "1.0 - max(hard, default=0.0)", "1.0 - min(hard)"),
    Broken(
        "signals/device.py",
        "turns as if kernels ran beside each other",
        "value = low if time_sliced or not measured else high",
        "value = high",
    ),
    Broken(
        "signals/device.py",
        "the fullest card speaks for all",
        "max(rooms, key=lambda found: found[0][2])",
        "min(rooms, key=lambda found: found[0][2])",
    ),
    Broken("signals/device.py", "idle processors as busy ones", "busy / total, 0.0", "1.0 - busy / total, 0.0"),
    # Anatomy: an ensemble's row holds its members.
    Broken(
        "anatomy/anatomy.py",
        "an ensemble counted twice",
        "rest = max(mean.value - on_path, 0.0)",
        "rest = mean.value",
        few=True,
    ),
    Broken(
        "anatomy/anatomy.py",
        "an ensemble's members added up over branches",
        "path, on_path = ensemble.longest_path(per_visit)",
        "path, on_path = ensemble.models(), sum(stage.seconds for stage in stages)",
    ),
    Broken("anatomy/anatomy.py", "every rest is an engine's", "if len(hidden) == 1:", "if hidden:"),
    Broken("anatomy/anatomy.py", "a version answers all requests", "return own / everything if", "return 1.0 if"),
    Broken(
        "anatomy/anatomy.py",
        "a direct call without its rest",
        "unattributed_seconds=max(mean.value - stage.seconds, 0.0)",
        "unattributed_seconds=0.0",
    ),
    # What a finding is worth, and how sure it is.
    Broken(_LEDGER, "an estimate is as good", "value *= ESTIMATED_FACTOR if line", "value *= 1.0 if line"),
    Broken(
        _LEDGER, "a comparison near its limit is as good", "value *= STRADDLING_FACTOR if line", "value *= 1.0 if line"
    ),
    Broken(
        _LEDGER, "what was not ruled out does not matter", "value *= MISSING_FACTOR if line", "value *= 1.0 if line"
    ),
    Broken(
        _LEDGER,
        "confidence of the weakest line alone",
        "value *= ESTIMATED_FACTOR if line.reading.estimated else 1.0",
        "value = min(value, BASE_CONFIDENCE * ESTIMATED_FACTOR if line.reading.estimated else 1.0)",
    ),
    Broken(_LEDGER, "share or time is enough", "WORTHWHILE_PART) and enough", "WORTHWHILE_PART) or enough"),
    Broken(
        _LEDGER,
        "a change of one version for all",
        "weighted = (saved * Reading.of(entry.weight,",
        "weighted = (saved * Reading.of(1.0,",
    ),
    Broken(
        _CLAIMING,
        "a second has two roots",
        "self.left[cell] = self.left.get(cell, 0.0) - taken",
        "self.left[cell] = self.left.get(cell, 0.0)",
        few=True,
    ),
    Broken(_CLAIMING, "more is claimed than there is", "min(seconds, self.left.get(cell, 0.0))", "seconds"),
    Broken(_CLAIMING, "a version's claim for all", "claim.seconds * entry.weight", "claim.seconds"),
    Broken(_CLAIMING, "a caller's queue has no cause", "part = min(got / held, 1.0)", "part = min(0 / held, 1.0)"),
    Broken(_FINDING, "the least saving claims first", "key=lambda result: -_saving(result)", "key=_saving"),
    Broken(
        _FINDING,
        "harm is the smaller share",
        "max(self.share_of_latency, self.share_of_requests_failed)",
        "min(self.share_of_latency, self.share_of_requests_failed)",
    ),
    Broken(_FINDING, "harm does not rank", "-finding.impact.harm,", ""),
    Broken(_FINDING, "confidence does not rank", "-finding.confidence,", ""),
    # The scheduler model.
    Broken(
        "tuning/queueing.py", "utilisation without instances", "occupancy(size) / load.instances", "occupancy(size)"
    ),
    Broken(
        "tuning/queueing.py", "utilisation by batches of one", "throughput / size * central", "throughput * central"
    ),
    Broken("tuning/waiting.py", "waiting as if all were random", "(arrival_scv + service_scv) / 2", "1"),
    Broken("tuning/waiting.py", "loss instead of delay", "return loss / (1 - share * (1 - loss))", "return loss"),
    Broken(
        "tuning/service.py",
        "occupancy without dispatch gap",
        "return self.time(size) + self.dispatch_gap",
        "return self.time(size)",
    ),
    Broken(
        "tuning/service.py", "a cost in seconds", "return service.per_item / service.time(1)", "return service.per_item"
    ),
    Broken(
        "evidence/capacity.py",
        "offered requests instead of items",
        "arrival_rate=offered * items",
        "arrival_rate=offered",
    ),
    Broken(
        "evidence/capacity.py",
        "refused requests never arrived",
        "arrivals.value + _refused(ledger, subject) / arrivals.span if",
        "arrivals.value if",
    ),
    # Arrivals.
    Broken(
        "signals/arrivals.py",
        "dispersion without its half",
        "index = sum(squares) / (2 * count)",
        "index = sum(squares) / count",
    ),
    Broken(
        "signals/arrivals.py", "a change of level is a burst", "in pairwise(residues))[:-1]", "in pairwise(residues))"
    ),
    # Traffic between replicas, memory, versions.
    Broken("signals/host.py", "growth over the whole window", "/ ((end - start) * 3 / 6)", "/ (end - start)"),
)


def mutants(*, few: bool, parts: Sequence[str]) -> list[Mutant]:
    """Return the broken formulas whose name holds one of the parts; all without parts."""
    chosen = [formula.mutant() for formula in FORMULAS if formula.few or not few]
    return [one for one in chosen if not parts or any(part in str(one) for part in parts)]


def main(arguments: Sequence[str]) -> int:
    """Print the survivors and a total; return 1 when there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="how many processes at once")
    parser.add_argument("--few", action="store_true", help="only the handful that every run of the tests judges")
    parser.add_argument("parts", nargs="*", help="parts of modules or names")
    chosen = parser.parse_args(arguments)
    everything = mutants(few=chosen.few, parts=chosen.parts)
    for one in everything:
        one.broken(one.path.read_text())
    left = list(map(str, survivors(everything, (), chosen.jobs)))
    print("\n".join([*left, f"{len(left)} of {len(everything)} broken formulas went unnoticed"]))
    return min(len(left), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
