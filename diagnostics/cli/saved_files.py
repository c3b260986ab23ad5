"""Files that people saved instead of a capture: pages, answers, logs and load tests, each known by its content."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from diagnostics.cli.sources import WindowOptions, repository_of
from diagnostics.diagnosis.diagnose import diagnose
from diagnostics.diagnosis.explanation import BlindSpot, Explanation, Verdict
from diagnostics.diagnosis.symptoms import Symptom
from diagnostics.errors import CollectError, MalformedBody, UsageError
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.evidence.ledger import least_worthwhile
from diagnostics.evidence.untimed import UntimedEvidence
from diagnostics.signals.signal import Scope
from diagnostics.units import Unit, time_text
from diagnostics.window.lifecycle import Happened
from diagnostics.window.saved import LEAST_APART, Basis, SavedBody, SavedWindow, laid_out
from diagnostics.window.window import Window, window_of
from diagnostics.wire.archive import is_archive
from diagnostics.wire.model_config import ModelConfig, configured_model, parse_model_config
from diagnostics.wire.perf_analyzer import LoadTest, parse_perf_analyzer
from diagnostics.wire.records import BodyKind
from diagnostics.wire.saved import Other, bare, pages_in, recognised, whole_answer, whole_page
from exporters.sources.repository import MOST_BYTES, read_given

STDIN = "-"
MOST_FILES = 200
"""A page a second for three minutes; more is a recording, which `diag record` makes."""
MOST_TOTAL_BYTES = 512 * 2**20
"""Eight of the largest bodies that are read."""
LIFETIME_CONFIDENCE = 0.5
"""A fault that lies hours back is in an average since the start too: such a cause is as likely past as present."""
_MENDED = {BodyKind.METRICS: whole_page, BodyKind.STATISTICS: whole_answer}
_NAME = re.compile(rb'^[^\S\n]*name\s*:\s*"([^"\n]{1,256})"', re.MULTILINE)
_PAGE = "curl -s localhost{} > metrics-$(date +%s).txt"
_TRITON = ":8002/metrics"
_AGAIN = "save another reading half a minute after the last, and name all files"
_PAGES = "save two readings half a minute apart, and name both files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was read from the files.

    Attributes:
        bodies: what becomes evidence.
        test: the load of a load test that is looked at; None without one.
        notes: files that say nothing here, each with the reason.

    """

    bodies: tuple[SavedBody, ...]
    test: LoadTest | None = None
    notes: tuple[BlindSpot, ...] = ()


def is_saved(name: str) -> bool:
    """Return whether a source on disk is a file that somebody saved, and no capture."""
    path = Path(name).expanduser()
    return name == STDIN or (path.exists() and not path.is_dir() and not is_archive(path))


def explain_saved(names: Sequence[str], question: WindowOptions) -> Explanation:
    """Return what saved files hold, with the repository that was given.

    Raises:
        CollectError: a file is nothing that is read here.
        UsageError: a file cannot be read, or they are too many.

    """
    given = read_saved(names)
    window = _with_repository(laid_out(given.bodies), question)
    evidence = _evidence(window)
    spots = (*_basis_spot(window.basis, _page_command(evidence)), *_unused(window), *given.notes)
    found = diagnose(evidence, question.diagnosis(_shown(names), spots))
    return _judged(_dated(found, given), window.basis, given.test)


def saved_window(names: Sequence[str], question: WindowOptions) -> Window:
    """Return the window of saved files, for verbs that need to know how long it is.

    Raises:
        CollectError: a file is nothing that is read here, or the time between the readings is not known.
        UsageError: a file cannot be read, or they are too many.

    """
    window = _with_repository(laid_out(read_saved(names).bodies), question)
    if not window.basis.timed:
        hint = "write the times into the files' names, as metrics-$(date +%s).txt; diag explain reads what they hold"
        raise CollectError(f"holds {window.basis}: the load is not known", where=", ".join(names), hint=hint)
    return window_of(window.scrapes)


def read_saved(names: Sequence[str]) -> Given:
    """Return what the files hold, each read whole and bounded.

    Raises:
        CollectError: a file is nothing that is read here.
        UsageError: a file cannot be read, or they are too many.

    """
    if len(names) > MOST_FILES:
        raise UsageError(f"are more than {MOST_FILES} files", hint="record with diag record")
    bodies, notes, tests, left = (
        list[SavedBody](),
        list[BlindSpot](),
        list[tuple[Path, float, bytes]](),
        MOST_TOTAL_BYTES,
    )
    for name in dict.fromkeys(names):
        data, at = _bytes(name)
        left -= len(data)
        if left < 0:
            raise UsageError(f"are larger than {MOST_TOTAL_BYTES >> 20} MiB together", hint="record with diag record")
        body, kind = _known(name, data)
        if kind is Other.PERF_ANALYZER:
            tests.append((Path(name), at, body))
        elif isinstance(kind, BodyKind):
            parts = pages_in(body) if kind is BodyKind.METRICS else [body]
            bodies += [_saved(Path(name), kind, part, at) for part in parts]
        else:
            notes.append(_note(name, f"{kind.value} has no time", "save its statistics or configuration"))
    return _with_test(list(_once(bodies, notes)), notes, tests)


def _once(bodies: Sequence[SavedBody], notes: list[BlindSpot]) -> Iterator[SavedBody]:
    """Yield bodies without those that repeat a reading, and note each of these.

    A server at rest answers the same twice: what was written at another time stays.
    """
    seen: dict[tuple[BodyKind, bytes], SavedBody] = {}
    for body in bodies:
        first = seen.setdefault((body.kind, body.body), body)
        counted = body.kind in (BodyKind.METRICS, BodyKind.STATISTICS)
        if first is body or not counted:
            yield body
            continue
        notes.append(_note(body.file, f"it holds the same reading as {first.file}", _AGAIN))
        if abs(body.at - first.at) >= LEAST_APART:
            yield body


def _known(name: str, data: bytes) -> tuple[bytes, BodyKind | Other]:
    try:
        body = bare(data, MOST_BYTES)
        # Headers between appended pages make no page of them: what each is shows in the first.
        return body, recognised(pages_in(body)[0])
    except MalformedBody as error:
        raise CollectError(error.what, where=_where(name), hint=error.hint) from None


def _bytes(name: str) -> tuple[bytes, float]:
    if name == STDIN:
        if sys.stdin is None:
            raise UsageError("is closed", where=_where(name), hint="pipe a saved page into it, or name a file")
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(f"is larger than {MOST_BYTES >> 20} MiB", where=_where(name))
        return data, time.time()
    path = Path(name).expanduser()
    return read_given(path), path.stat().st_mtime


def _saved(path: Path, kind: BodyKind, body: bytes, at: float) -> SavedBody:
    model = ""
    if kind is BodyKind.REPOSITORY:
        written = _NAME.search(body)
        name = written[1].decode("utf-8", "replace") if written else path.absolute().parent.name
        model = f"{name}/config.pbtxt"
    elif kind is BodyKind.CONFIG:
        model = configured_model(body)
    if kind in _MENDED:
        body = _MENDED[kind](body)
    return SavedBody(file=path.name, kind=kind, body=body, at=at, model=model)


def _with_test(bodies: list[SavedBody], notes: list[BlindSpot], tests: list[tuple[Path, float, bytes]]) -> Given:
    """Add the server's part of a load test, its heaviest load, where no other counters are given."""
    if not tests:
        return Given(bodies=tuple(bodies), notes=tuple(notes))
    path, at, body = tests[-1]
    try:
        loads = parse_perf_analyzer(body)
    except MalformedBody as error:
        raise CollectError(error.what, where=str(path), hint=error.hint) from None
    test = max(loads, key=lambda load: load.requests / load.seconds)
    notes += [_note(other.name, "one load test is read", "name one at a time") for other, _, _ in tests[:-1]]
    if len(loads) > 1:
        rest = f"{len(loads) - 1} other loads"
        notes.append(_note(f"{rest} of {path.name}", f"the one with the most requests is read: {test.load}", ""))
    if any(one.kind in (BodyKind.METRICS, BodyKind.STATISTICS) for one in bodies):
        why = "counters of another time than the test's are given"
        notes.append(_note(f"the server's part of {path.name}", why, "name the test alone"))
    elif test.counters:
        bodies += _pages_of(test, path.name, at, bodies)
    return Given(bodies=tuple(bodies), test=test, notes=tuple(notes))


def _pages_of(test: LoadTest, file: str, at: float, beside: Sequence[SavedBody]) -> Iterator[SavedBody]:
    """Yield the server's counters at a test's start and end.

    The model that was called is not printed: it is the ensemble or the only model whose configuration is given. An
    ensemble whose configuration is not given is left out: its row would count its members' time once more.
    """
    configs = [config for body in beside if body.kind is BodyKind.CONFIG for config in _read_config(body.body)]
    ensembles = [config.name for config in configs if config.ensemble_steps]
    names = {*(ensembles or [config.name for config in configs])}
    names |= {body.model.partition("/")[0] for body in beside if body.kind is BodyKind.REPOSITORY}
    model = names.pop() if len(names) == 1 else "model"
    for start, moment in ((True, at - test.seconds), (False, at)):
        body = test.page(model, start=start, whole=bool(ensembles) or len(test.counters) == 1)
        yield SavedBody(file=file, kind=BodyKind.METRICS, body=body, at=moment, basis=Basis.TEST)


def _read_config(body: bytes) -> Iterator[ModelConfig]:
    with contextlib.suppress(MalformedBody):  # the window names the one that cannot be read
        yield parse_model_config(body)


def _with_repository(window: SavedWindow, question: WindowOptions) -> SavedWindow:
    servers = tuple(dict.fromkeys(scrape.server for scrape in window.scrapes if scrape.server))
    files = tuple(repository_of(question, servers))
    return replace(window, scrapes=window.scrapes + files, stretched=window.stretched + files)


def _evidence(window: SavedWindow) -> WindowEvidence:
    if window.basis.timed:
        return WindowEvidence(window_of(window.scrapes))
    return UntimedEvidence(
        window_of(window.scrapes), window_of(window.stretched), estimated=window.basis is Basis.LIFETIME
    )


def _page_command(evidence: WindowEvidence) -> str:
    """Return the command that saves another page of what the files are of: a Triton, where nothing else shows."""
    kinds = (evidence.server_kind(on) for on in evidence.subjects(Scope.SERVER))
    return _PAGE.format(next((kind.page for kind in kinds if kind), _TRITON))


def _basis_spot(basis: Basis, command: str) -> Iterator[BlindSpot]:
    what = "rates, busy shares and percentiles"
    if basis is Basis.LIFETIME:
        yield BlindSpot(
            what=f"{what}, and what changed when", why=f"one reading holds {basis}", fix=_AGAIN, command=command
        )
    elif basis is Basis.NOTHING:
        yield BlindSpot(
            what="whether requests wait or fail", why="no file holds counters of a model", fix=_PAGES, command=command
        )
    elif basis is Basis.UNKNOWN:
        why, fix = (
            "the time between the readings is unknown",
            "name files by their time, as metrics-$(date +%s).txt",
        )
        yield BlindSpot(what=what, why=why, fix=fix)
    elif basis in (Basis.FILES, Basis.INFERENCES):
        why = f"it is taken from {basis}"
        yield BlindSpot(what="the exact time between the readings", why=why, fix="")


def _unused(window: SavedWindow) -> Iterator[BlindSpot]:
    for name in window.unused:
        yield _note(name, "its counters are of one moment, or of an unknown one", "")


def _note(what: str, why: str, fix: str) -> BlindSpot:
    return BlindSpot(what=what, why=why, fix=fix)


def _dated(explanation: Explanation, given: Given) -> Explanation:
    """Return the explanation with the time of the files where nothing in them was counted."""
    facts = explanation.window
    if facts.end > 0:
        return explanation
    end = max(body.at for body in given.bodies) if given.bodies else time.time()
    return replace(explanation, window=replace(facts, start=end, end=end))


def _judged(explanation: Explanation, basis: Basis, test: LoadTest | None) -> Explanation:
    """Return the explanation as far as such readings carry it: averages of any time show no health."""
    explanation = replace(explanation, window=replace(explanation.window, basis=basis.value))
    if not basis.timed:
        facts = replace(explanation.window, start=explanation.window.end)
        explanation = replace(explanation, window=facts)
    beside = [] if test is None else list(_outside(test))
    for symptom in beside or (list(_failed_loads(explanation)) if basis is Basis.NOTHING else []):
        explanation = _with_symptom(explanation, symptom)
    if not basis.timed and (explanation.verdict is Verdict.HEALTHY or explanation.healthy_as_read):
        reason = f"{basis} show nothing wrong, and would not show what is wrong now"
        return replace(explanation, verdict=Verdict.INSUFFICIENT_DATA, reason=reason)
    if basis is not Basis.LIFETIME:
        return explanation
    found = tuple(replace(one, confidence=min(one.confidence, LIFETIME_CONFIDENCE)) for one in explanation.findings)
    return replace(explanation, findings=found)


def _failed_loads(explanation: Explanation) -> Iterator[Symptom]:
    """Yield the models whose last load failed, by a log or an index; a finding says more where there is one."""
    if explanation.findings:
        return
    for on in explanation.evidence.subjects(Scope.SERVER):
        last = {change.model: change for change in explanation.evidence.changes(on.server) if change.model}
        for change in last.values():
            if change.kind is Happened.LOAD_FAILED:
                yield Symptom(
                    text=f"{change} at {time_text(change.at)}: {change.reason or 'no reason is given'}",
                    next_measurement="correct what the log reports, and load the model again",
                )


def _outside(test: LoadTest) -> Iterator[Symptom]:
    """Yield the time that a test's clients wait outside the server, where it is a large part of a request's."""
    seconds = test.client_seconds - (test.client_seconds if test.server_seconds is None else test.server_seconds)
    if seconds >= least_worthwhile(test.client_seconds):
        yield Symptom(
            text=f"the test's clients wait {Unit.SECONDS.show(seconds)} of {Unit.SECONDS.show(test.client_seconds)} "
            "outside the server: network, marshalling, or the test's own machine",
            next_measurement="run perf_analyzer on the server's machine with the same load",
        )


def _with_symptom(explanation: Explanation, symptom: Symptom) -> Explanation:
    explanation = replace(explanation, symptoms=(*explanation.symptoms, symptom))
    if explanation.verdict not in (Verdict.HEALTHY, Verdict.INSUFFICIENT_DATA):
        return explanation
    return replace(explanation, verdict=Verdict.NO_CLEAR_CAUSE, reason=symptom.text)


def _where(name: str) -> str:
    return "standard input" if name == STDIN else name


def _shown(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(_where(name) for name in dict.fromkeys(names))
