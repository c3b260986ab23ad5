"""What a lint found as JSON, schema version 1. Keys are added within a version, never renamed."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import quote

from diagnostics import __version__
from diagnostics.lint.catalogue import RegisteredRule
from diagnostics.lint.fixes import configurations, fixed_text
from diagnostics.lint.problem import LintProblem, LintSeverity, SourceLocation, TextFile
from diagnostics.lint.run import LintReport
from diagnostics.render.json_head import Json, head, schema_text
from diagnostics.tuning.changes import ConfigChange, Setting, WarmupChange
from diagnostics.tuning.patch import MOST_COMPARED_LINES, changed_lines


def lint_report(report: LintReport) -> Json:
    """Return the report as JSON-ready data; lines and columns count from 1."""
    return {
        **head("lint"),
        "problems": [problem_json(problem) for problem in report.problems],
        "waived": [
            {**problem_json(one.problem), "reason": one.reason, "by": "comment" if one.in_source else "settings"}
            for one in report.waived
        ],
        "counts": {
            **{severity.value: sum(one.severity is severity for one in report.problems) for severity in LintSeverity},
            "waived": len(report.waived),
            "models": report.models,
            "unreadable_models": report.unread,
            "deployment_files": report.files,
        },
        "rules": len(report.rules),
        "failures": list(report.failures),
    }


def lint_schema() -> str:
    """Return the text of the JSON Schema that every report meets."""
    return schema_text("lint")


def problem_json(problem: LintProblem) -> Json:
    """Return one problem."""
    return {
        "rule": problem.rule,
        "severity": problem.severity.value,
        "path": problem.place.path,
        "line": problem.place.line,
        "column": problem.place.column,
        "message": problem.message,
        "help": problem.help or None,
        "fix": _fix(problem.fix) if problem.fix else None,
    }


def _fix(change: ConfigChange) -> Json:
    return {"model": change.model, "settings": [_setting(setting) for setting in change.settings]}


def _setting(setting: Setting) -> Json:
    value = setting.value
    if isinstance(value, WarmupChange):
        return {"path": setting.path, "value": {"batch_sizes": list(value.batch_sizes)}}
    return {"path": setting.path, "value": list(value) if isinstance(value, tuple) else value}


_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {LintSeverity.ERROR: "error", LintSeverity.WARNING: "warning", LintSeverity.INFO: "note"}
Sarif = dict[str, Any]
# What is hashed is named by a version: a fingerprint made of something else gets another one.
_FINGERPRINT = "diagProblem/v1"
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def lint_sarif(report: LintReport, runbooks: str = "") -> Sarif:
    """Return the report as a SARIF log of one run; paths stay as they are shown, relative ones as relative URIs.

    `runbooks` is the address below which the pages of rules are published; rules link nowhere where it is empty, as
    `helpUri` must be absolute (SARIF 2.1.0, 3.49.12).
    """
    rules = [_rule(found, runbooks) for found in report.rules.values()]
    driver = {"name": "diag lint", "semanticVersion": __version__, "rules": rules}
    ids = {identifier: index for index, identifier in enumerate(report.rules)}
    files = configurations(report.project)
    marks = _fingerprints([*report.problems, *(one.problem for one in report.waived)])
    results = [_result(problem, ids, files, marks) for problem in report.problems]
    for one in report.waived:
        kind = "inSource" if one.in_source else "external"
        suppression = {"kind": kind, "justification": one.reason}
        results.append({**_result(one.problem, ids, files, marks), "suppressions": [suppression]})
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report)],
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _invocation(report: LintReport) -> Sarif:
    reported = [{"level": "error", "message": {"text": failure}} for failure in report.failures]
    return {"executionSuccessful": not reported, "toolExecutionNotifications": reported}


def _fingerprints(problems: Iterable[LintProblem]) -> Mapping[int, str]:
    """Return what identifies each problem from one run to the next, by the identity of the object.

    It is made of the rule, the path and the message without its numbers. Of problems alike in these, the place decides
    only which is the first. So lines above may move, and a value may change.
    """
    found, alike = dict[int, str](), Counter[str]()
    for problem in sorted(problems, key=lambda one: (one.place.path, one.place.line, one.place.column)):
        what = "\x1f".join((problem.rule, problem.place.path, _NUMBER.sub("", problem.message)))
        alike[what] += 1
        text = f"{what}\x1f{alike[what]}"
        found[id(problem)] = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]
    return found


def _rule(found: RegisteredRule, runbooks: str) -> Sarif:
    sections = found.sections()
    markdown = "\n\n".join(f"## {heading}\n{text}" for heading, text in sections.items())
    return {
        "id": found.id,
        **({"helpUri": f"{runbooks.rstrip('/')}/{found.id}.md"} if runbooks else {}),
        "shortDescription": {"text": f"{found.title}."},
        "fullDescription": {"text": sections.get("Means") or f"{found.title}."},
        "help": {"text": sections.get("Do") or f"{found.title}.", "markdown": markdown},
        "defaultConfiguration": {"level": _LEVELS[found.rule.severity]},
        "properties": {"question": found.rule.question.value},
    }


def _result(
    problem: LintProblem, ids: Mapping[str, int], files: Mapping[str, TextFile], marks: Mapping[int, str]
) -> Sarif:
    text = f"{problem.message}; {problem.help}" if problem.help else problem.message
    result = {
        "ruleId": problem.rule,
        "ruleIndex": ids[problem.rule],
        "level": _LEVELS[problem.severity],
        "message": {"text": text},
        "locations": [_location(problem.place)],
        "partialFingerprints": {_FINGERPRINT: marks[id(problem)]},
    }
    changed = fixed_text(problem, files)
    if changed and changed[0] != changed[1]:
        result["fixes"] = [_sarif_fix(problem, *changed)]
    return result


def _location(place: SourceLocation) -> Sarif:
    region = {"startLine": place.line, "startColumn": place.column}
    return {"physicalLocation": {"artifactLocation": _artifact(place.path), "region": region}}


def _artifact(path: str) -> Sarif:
    uri = quote(path, errors="surrogateescape")
    return {"uri": f"file://{uri}" if path.startswith("/") else uri}


def _sarif_fix(problem: LintProblem, before: str, after: str) -> Sarif:
    change = {"artifactLocation": _artifact(problem.place.path), "replacements": list(_replacements(before, after))}
    return {"description": {"text": problem.help or problem.message}, "artifactChanges": [change]}


def _replacements(before: str, after: str) -> Iterator[Sarif]:
    """Yield replacements of whole lines; a region ends before its end line's first column."""
    old, new = _lines(before), _lines(after)
    for start, end, new_start, new_end in _changes(old, new):
        region = {"startLine": start + 1, "startColumn": 1, "endLine": end + 1, "endColumn": 1}
        yield {"deletedRegion": region, "insertedContent": {"text": "".join(new[new_start:new_end])}}


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    if max(len(old), len(new)) <= MOST_COMPARED_LINES:
        for tag, *where in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag != "equal":
                yield where[0], where[1], where[2], where[3]
        return
    start, end, new_end = changed_lines(old, new)
    yield start, end, start, new_end


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]+\n?|\n", text)
