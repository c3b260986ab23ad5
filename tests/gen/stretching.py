"""A capture of half a minute carried on to what alerts need: its counters at its own rates, its gauges over again."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice
from pathlib import Path

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.gen.alert import series
from diagnostics.gen.finding_alerts import FINDING
from diagnostics.gen.yaml_text import Tree, yaml_text
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.records import BodyKind
from exporters.sinks.exposition import FOUND, rows_of
from tests.captures.recorded import explanation_of, scrapes_of
from tests.gen.shipped import files

MINUTES = 30
_GROUPS = re.compile(r'^  - name: "?([\w-]+)', re.MULTILINE)
_REPORTED = re.compile(r'\{__name__="ALERTS", ([^}]*)\}')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# Not a metric of Triton's page: the iterations of an engine are counted in a gauge.
_COUNTING = 'general_type="iteration_counter"'


@cache
def rules() -> Mapping[str, str]:
    """Return the files of rules by their names."""
    return {name: text for name, text in files().items() if name.startswith(("recording/", "alerts/"))}


@cache
def families_read() -> frozenset[str]:
    """Return what the rules read of Triton; all else of a page costs time only."""
    return frozenset(re.findall(r"\bnv_\w+", "".join(rules().values())))


@dataclass(frozen=True, slots=True)
class Firing:
    """An alert that fires, and on which model."""

    alert: str
    model: str


def firing(names: Sequence[str], folder: Path, promtool: Callable) -> Mapping[str, set[Firing]]:
    """Return the alerts that fire at the end of each stretched capture.

    All captures are servers of one fleet, named as they are: a rule is one query for them all.
    """
    for name, text in rules().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    path = folder / "stretched.yaml"
    path.write_text(yaml_text(_asking({key: text for name in names for key, text in _stretched(name)})))
    done: subprocess.CompletedProcess[str] = promtool("test", "rules", path)
    # Nothing is expected, so all that fires is told as a failure.
    reported = [dict(_LABEL.findall(labels)) for labels in _REPORTED.findall(done.stdout + done.stderr)]
    assert reported, done.stdout + done.stderr
    found: dict[str, set[Firing]] = {name: set() for name in names}
    for labels in filter(lambda labels: labels.keys() & {"server", "instance"}, reported):
        found[labels["server"] if "server" in labels else labels["instance"]].add(
            Firing(labels["alertname"], labels.get("model", ""))
        )
    return found


@cache
def explained(name: str) -> Explanation:
    """Return what is said of a capture."""
    return explanation_of(scrapes_of(name))


def _asking(values: Mapping[str, str]) -> Tree:
    return {
        "rule_files": list(rules()),
        "group_eval_order": [name for path in sorted(rules(), reverse=True) for name in _GROUPS.findall(rules()[path])],
        "evaluation_interval": "5m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": text} for name, text in values.items()],
                "promql_expr_test": [
                    {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{MINUTES}m", "exp_samples": []}
                ],
            }
        ],
    }


def _stretched(name: str) -> Iterator[tuple[str, str]]:
    yield series("up", {"instance": name, "job": "triton"}), f"1x{MINUTES}"
    yield from _of_triton(name)
    yield from _of_findings(name)


def _of_triton(name: str) -> Iterator[tuple[str, str]]:
    samples: dict[str, list[tuple[float, float]]] = {}
    counters, reader = set(), ExpositionReader()
    for scrape in scrapes_of(name):
        if scrape.kind is not BodyKind.METRICS or scrape.body is None:
            continue
        page = reader.read(scrape.body)
        for one, value in zip(page.layout.series, page.values, strict=True):
            if one.name in families_read():
                key = series(one.name, {**one.labels, "instance": name, "job": "triton"})
                samples.setdefault(key, []).append((scrape.at, value))
                if page.layout.types.get(one.name) == "counter" or _COUNTING in key:
                    counters.add(key)
    for key, found in samples.items():
        yield key, _line(found) if key in counters else _again([value for _, value in found])


def _line(found: Sequence[tuple[float, float]]) -> str:
    (begin, first), (end, last) = found[0], found[-1]
    step = 60 * max(last - first, 0.0) / (end - begin) if end > begin else 0.0
    return f"0+{step:.6f}x{MINUTES}"


def _again(values: Sequence[float]) -> str:
    return " ".join(f"{value:.6f}" for value in islice(cycle(values), MINUTES + 1))


def _of_findings(name: str) -> Iterator[tuple[str, str]]:
    for family, labels, value in rows_of("chat", explained(name)):
        if family is FOUND:
            named = {key: text for key, text in zip(family.labels, labels, strict=True) if text}
            yield series(FINDING, {**named, "server": name}), f"{value:.0f}x{MINUTES}"
