"""The live state for a terminal: each deployment with its verdict, what is wrong below it.

The state is that of the service's `/api/v1/state`: names that servers gave are cleaned here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from diagnostics.render.plain import fitted
from diagnostics.units import time_text

Json = dict[str, Any]
Style = Callable[[str, str], str]
_VERDICTS = {"healthy": "green", "degraded": "red"}
_SEVERITIES = {"critical": "red", "warning": "yellow", "info": "cyan"}


def gist(state: Json) -> object:
    """Return what must change for a reader to be notified again: verdicts, findings, incidents and who answers."""
    return (
        tuple(
            (one["name"], one["verdict"], one.get("no_data_since"), _late(one), *one.get("changes", ()), _findings(one))
            for one in state["deployments"]
        ),
        tuple(one["what"] for one in state.get("faults", ())),
        tuple((one["server"], one["up"], bool(one["error"])) for one in state["targets"]),
        tuple(one["id"] for one in state["incidents"]),
        tuple(one["id"] for one in state.get("acknowledged", ())),
        state.get("error", ""),
    )


def _late(deployment: Json) -> bool:
    return bool(deployment.get("late"))


def _findings(deployment: Json) -> tuple[object, ...]:
    return tuple((finding["id"], finding["severity"]) for finding in deployment["findings"])


def frame(state: Json, columns: int, style: Style | None = None) -> list[str]:
    """Return the lines of a screen, each at most `columns` wide; `style` gives a text a colour."""
    paint = style or (lambda text, _: text)
    lines = [fitted(_head(state), columns)]
    if state.get("error"):
        lines.append(paint(fitted(f"not current: {state['error']}", columns), "yellow"))
    failing = (f"the service: {fault['what']} fails: {fault['reason']}" for fault in state.get("faults", ()))
    lines += [paint(fitted(line, columns), "yellow") for line in failing]
    for deployment in state["deployments"]:
        lines += ["", *_deployment(deployment, state, columns, paint)]
    waiting = [one for one in state["targets"] if one["deployment"] not in _names(state)]
    if waiting:
        lines += ["", *(paint(fitted(_target(one), columns), "yellow") for one in waiting)]
    return lines


def _head(state: Json) -> str:
    if not state["targets"]:
        return f"{time_text(state['now'])}  waiting for the first round"
    up = sum(one["up"] for one in state["targets"])
    return f"{time_text(state['now'])}  {up} of {len(state['targets'])} servers answer"


def _names(state: Json) -> set[str]:
    return {one["name"] for one in state["deployments"]}


def _target(target: Json) -> str:
    if target["up"] and not target["error"]:
        return f"{target['deployment']}: was not judged yet"
    name, error = target["server"], target["error"]
    how = "answers in part" if target["up"] else "does not answer"
    return f"{name} {how}: {error.removeprefix(f'{name}: ')}"


def _deployment(deployment: Json, state: Json, columns: int, paint: Style) -> Iterator[str]:
    verdict = deployment["verdict"]
    reason = f": {deployment['reason']}" if deployment["reason"] else ""
    silent = deployment.get("no_data_since")
    if silent is None:
        answer = f": {deployment['answer']}" if deployment.get("answer") else reason
        colour = "yellow" if _late(deployment) else _VERDICTS.get(verdict, "yellow")
        yield paint(fitted(f"{deployment['name']}  {verdict}{_age(deployment)}{answer}", columns), colour)
    else:
        since = f"no data since {time_text(silent)}, for {_ago(state['now'] - silent)}; before: {verdict}"
        yield paint(fitted(f"{deployment['name']}  {since}{reason}", columns), "yellow")
    for change in deployment.get("changes", ()):
        yield fitted(f"  {change}", columns)
    for source, count in _found_by(deployment["name"], state).items():
        yield fitted(f"  {count} server{'s' * (count != 1)} found by {source}", columns)
    for target in state["targets"]:
        if target["deployment"] == deployment["name"] and (target["error"] or not target["up"]):
            yield paint(fitted(f"  {_target(target)}", columns), "yellow")
    open_ones = {one["fingerprint"]: one for one in state["incidents"] if one["deployment"] == deployment["name"]}
    shown = {finding["id"] for finding in deployment["findings"]}
    unseen = [one for fingerprint, one in open_ones.items() if fingerprint not in shown]
    critical = [one for one in unseen if one["severity"] == "critical"]
    for incident in critical:
        yield paint(fitted(f"  {_unseen(incident, state, silent)}", columns), "red")
    for finding in deployment["findings"]:
        known = open_ones.get(finding["id"])
        yield from _finding(finding, known, state, columns, paint)
        if known and (by := _acknowledged(state, known["id"])):
            yield fitted(f"      acknowledged by {by['who']}: {by['text']}", columns)
    for incident in (one for one in unseen if one not in critical):
        yield fitted(f"  {_unseen(incident, state, silent)}", columns)


def _unseen(incident: Json, state: Json, silent: float | None) -> str:
    """Return an open incident that the newest verdict does not show, in one line."""
    since = _ago(state["now"] - incident["seen"])
    why = f"last seen {since} ago" if silent is None else f"not read for {since}"
    return f"{incident['severity']} {incident['check']}, open: {why}: {incident['summary']}"


def _age(deployment: Json) -> str:
    """Return how old a verdict's data is, in parentheses; empty from services that do not state it."""
    if "age" not in deployment:
        return ""
    ago = f"{_ago(deployment['age'])} ago"
    return f" ({ago}: evaluation is late)" if _late(deployment) else f" ({ago})"


def _found_by(deployment: str, state: Json) -> Counter[str]:
    """Return how many servers of a deployment each source of discovery names."""
    targets = [one for one in state["targets"] if one["deployment"] == deployment]
    return Counter(source for one in targets if (source := one.get("found_by")))


def _finding(finding: Json, incident: Json | None, state: Json, columns: int, paint: Style) -> Iterator[str]:
    onset = incident["onset"] if incident else finding["onset"]
    since = f", for {_ago(state['now'] - onset)}" if onset else ""
    mark = "↳ " if finding["caused_by"] else ""
    head = f"  {mark}{finding['severity']}  {finding['check']} of {_subject(finding['subject'], state)}{since}"
    yield paint(fitted(head, columns), _SEVERITIES.get(finding["severity"], "cyan"))
    yield fitted(f"      {finding['summary']}", columns)
    if finding.get("step"):
        yield fitted(f"      {finding['step']}", columns)
    if finding.get("doubt"):
        yield fitted(f"      {finding['doubt']}", columns)


def _acknowledged(state: Json, incident: str) -> Json | None:
    """Return who acknowledged an incident; None while nobody did, and from services without acknowledgements."""
    return next((one for one in state.get("acknowledged", ()) if one["incident"] == incident), None)


def _subject(subject: Json, state: Json) -> str:
    """Return the model and its server: its name, which is that of its metrics page, and the URL of the settings."""
    parts = [subject[part] for part in ("model", "gpu", "ensemble") if subject.get(part)]
    name = subject["server"]
    url = next((one.get("url") for one in state["targets"] if one["server"] == name), None)
    beside = f" ({url})" if url and name not in url else ""
    return f"{parts[0]} on {name}{beside}" if parts else f"{name}{beside}"


def _ago(seconds: float) -> str:
    """Return a length of time in its largest whole unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
