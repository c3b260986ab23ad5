from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import pytest

from diagnostics.diagnosis.explanation import BlindSpot, Explanation
from diagnostics.diagnosis.objective import Objective
from diagnostics.evidence.ledger import LedgerLine
from diagnostics.render.phrases import between, felt, headline
from diagnostics.render.plain import WIDTH, code_lines, wrapped
from diagnostics.signals.signal import Reading
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.units import Unit
from tests.render.shown import text
from tests.render.situations import pipeline, situations, with_line
from tests.render.widths import columns


def patches(explanation: Explanation) -> set[str]:
    made = [finding.advice.patch for finding in explanation.findings if finding.advice]
    return {line for patch in made if patch for line in code_lines(patch.text)}


@pytest.mark.parametrize("verbose", [False, True])
def test_every_line_but_what_is_pasted_fits_a_terminal(situation: Explanation, verbose: bool) -> None:
    shown = text(situation, verbose=verbose).splitlines()
    lines = [line for line in shown if line not in patches(situation) and not line.startswith("    curl ")]

    # Wide characters are wrapped by count, and may then take up to twice the columns.
    assert not [line for line in lines if len(line) > WIDTH]
    assert not [line for line in lines if line.isascii() and columns(line) > WIDTH]


def test_no_name_can_control_a_terminal(situation: Explanation) -> None:
    shown = text(situation)

    assert all(char == "\n" or char.isprintable() or char == "\t" for char in shown)
    assert shown.encode()


def test_it_is_the_same_every_time(situation: Explanation) -> None:
    assert text(situation) == text(situation)


def test_the_first_lines_say_what_is_wrong_and_what_to_do(degraded: Explanation) -> None:
    lines = text(degraded).splitlines()

    assert " ".join(" ".join(lines[:2]).split()) == (
        "degraded: chat mean 211 ms, 38 requests/s, 78 % of the mean avoidable: single-instance-serialization of safety"
    )
    assert "  fix: raise instance_group count of safety from 1 to 2" in lines[:5]


def test_the_patch_comes_before_the_evidence_with_its_effect_and_a_command(degraded: Explanation) -> None:
    shown = text(degraded)
    parts = ("count: 2", "predicted mean of chat", "curl -X POST http://HOST:8000/v2/", "evidence (+ for", "where chat")

    assert [shown.index(part) for part in parts] == sorted(shown.index(part) for part in parts)
    assert len(shown.splitlines()) <= 45


def test_a_command_is_for_the_server_that_was_read_by_the_name_that_was_asked_for(degraded: Explanation) -> None:
    window = replace(degraded.window, addresses={"triton-0": "http://triton:8000"}, given={"triton-0": "triton:8000"})
    lines = text(replace(degraded, window=window)).splitlines()

    assert "    curl -X POST http://triton:8000/v2/repository/models/safety/load" in lines
    assert lines[-1].endswith("from triton:8000 (triton-0)")


def test_what_a_short_report_leaves_out_is_counted_and_shown_when_asked_for(degraded: Explanation) -> None:
    spots = (BlindSpot(what="the clock", why="it is broken", fix="wind it up"),)
    short, whole = (text(replace(degraded, blind_spots=spots), verbose=verbose) for verbose in (False, True))

    assert "not shown: 1 blind spot, 3 undecided checks; -v shows all" in short
    assert "wind it up" not in short
    assert "  - the clock: it is broken; wind it up" in whole
    assert "undo: put the former text back, then load, wait or restart as before" in whole


def test_the_answer_is_stated_once(degraded: Explanation) -> None:
    assert text(degraded).count("requests wait 170 ms for") == 1
    assert text(degraded).count("fix: raise") == 1


@pytest.mark.parametrize(("met", "mark"), [(True, "+"), (False, "-"), (None, "?")])
def test_each_line_of_evidence_says_whether_it_speaks_for_its_finding(
    degraded: Explanation, met: bool | None, mark: str
) -> None:
    shown = text(with_line(degraded, Reading.of(0.05, Unit.SECONDS, "statistics"), met))

    assert f"   {mark} stated_for_a_test_with_a_name_that_is_long " in shown
    assert "   + queue_seconds " in shown


def test_a_setting_is_shown_as_yes_or_no(degraded: Explanation) -> None:
    line = LedgerLine(
        signal="on_gpu", reading=Reading.of(0.0, Unit.COUNT, "configuration"), limit=0.0, sign="<=", met=True
    )
    finding = replace(degraded.findings[0], evidence=(line, msgspec.structs.replace(line, sign=">", met=False)))
    shown = text(replace(degraded, findings=(finding,)))
    found = [row.split() for row in shown.splitlines() if " on_gpu " in row]

    assert found == [["+", "on_gpu", "no", "no", "configuration"], ["-", "on_gpu", "no", "yes", "configuration"]]


def test_an_objective_that_is_missed_says_whether_latency_is_bad_and_no_share_is_needed(degraded: Explanation) -> None:
    first = degraded.findings[0]
    objective = Objective.parse("p95 < 200ms")

    assert felt(degraded, first).endswith("78 % of the mean avoidable")
    assert "avoidable" not in felt(replace(degraded, objective=objective), first)
    assert "avoidable" not in felt(degraded, replace(first, suggestion=None, effect=None))


def test_an_interval_without_an_end_says_what_that_means() -> None:
    assert between(0.0033, None) == "3.3 ms or more: it may still not keep up with the load"
    assert between(0.0033, 0.0096) == "3.3 ms to 9.6 ms"


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    for width in range(40, 90):
        lines = wrapped(f"{'x' * width} took 12.5 ms more, 34 % of it, and 1.5 GiB for 3 s {'y' * 9}")

        assert not [line for line in lines if line.lstrip().startswith(("ms", "%", "GiB", "s "))], lines


def test_a_healthy_window_says_so_and_asks_for_nothing() -> None:
    lines = text(situations()["healthy"]).splitlines()

    assert lines[0] == "healthy: requests of fast take 10 ms on average, and no change would help"
    assert not [line for line in lines if "next:" in line or "fix:" in line]


def test_without_a_cause_the_next_measurement_comes_second() -> None:
    lines = text(situations()["no clear cause"]).splitlines()

    assert lines[0].startswith("no-clear-cause: requests wait 170 ms for slow")
    assert lines[1] == "  next: let the tool reach the HTTP or gRPC port: GET v2/models/<model>/config"


def test_nothing_read_is_stated_in_two_lines_and_the_source() -> None:
    assert text(situations()["nothing"]) == (
        "insufficient-data: no model's counters could be read\n\nnothing was read from any source\n"
    )


def test_a_missing_value_is_unknown_with_its_reason() -> None:
    _, _, after = text(situations()["missing value"]).partition("   ? stated_for_a_test_with_a_name_that_is_long ")

    assert after.split()[:7] == ["unknown", ">=", "100", "ms", "too", "few", "events"]


def test_columns_hold_whatever_the_values(degraded: Explanation) -> None:
    _, _, after = text(degraded).partition("from statistics):\n")
    table = after.partition("\n\n")[0].splitlines()

    assert [line.split()[0] for line in table] == ["stage", "first", "safety", "side", "last", "between"]
    assert len({len(line) for line in table}) == 1


def test_many_entries_are_counted_not_listed() -> None:
    shown = text(situations()["many models"])

    assert "and 39 more" in shown
    assert len(shown.splitlines()) < 40


def test_blind_spots_with_one_remedy_share_a_line() -> None:
    shown = text(situations()["no clear cause"])

    assert shown.count("GET v2/models/<model>/config") == 2  # the next step and the list


def test_a_consequence_names_its_cause(degraded: Explanation) -> None:
    cause = degraded.findings[0]
    effect = replace(cause, id="other", check="queue-rejections", caused_by=cause.id)

    assert "   caused by 1" in text(replace(degraded, findings=(cause, effect))).splitlines()
    assert "caused by" not in text(replace(degraded, findings=(replace(effect, caused_by="gone"),)))


def test_colour_changes_nothing_but_colour(situation: Explanation) -> None:
    marked = text(situation, lambda line, colour: f"\x1b[{colour}m{line}\x1b[0m" if colour else line)
    for colour in ("red", "green", "yellow", "cyan", "0"):
        marked = marked.replace(f"\x1b[{colour}m", "")

    assert marked == text(situation)


def test_a_patch_says_what_it_touches_how_it_is_applied_and_undone(degraded: Explanation) -> None:
    shown = " ".join(text(degraded, verbose=True).split())

    assert "applied in place, without a reload, unless the server must restart; each further instance holds" in shown
    assert (
        "restart the server (--model-control-mode none, the default), wait for the next poll (poll), or load" in shown
    )
    assert "undo: put the former text back, then load, wait or restart as before" in shown


def test_patches_of_one_model_say_how_they_stand_to_each_other(degraded: Explanation) -> None:
    first = degraded.findings[0]
    assert first.suggestion is not None
    assert first.suggestion.change is not None
    other = ConfigChange(model="safety", settings=(Setting(path="dynamic_batching", value=True),))
    same = replace(first, id="f" * 16)
    differs = replace(first, id="e" * 16, suggestion=replace(first.suggestion, change=other))
    shown = " ".join(text(replace(degraded, findings=(first, same, differs)), verbose=True).split())

    assert "the same change as 1: it needs to be made once" in shown
    assert "changes the same file as 1; one change at a time" in shown


@pytest.mark.parametrize(
    ("objective", "figure"),
    [
        ("mean < 2ms", r"chat mean \S+ m?s, objective 2 ms"),
        ("p95 < 2ms", r"chat mean \S+ m?s \(p95 is not measured\), objective p95 2 ms"),
    ],
)
def test_latency_against_its_objective_comes_first_and_in_the_headline(objective: str, figure: str) -> None:
    explanation = pipeline("safety").explain(objective=Objective.parse(objective))
    shown = text(explanation).splitlines()
    assert re.match(rf"degraded: {figure}, 38 requests/s: single-instance-", " ".join(map(str.strip, shown)))
    assert re.match(rf"{figure}: one instance of safety", headline(explanation))


@pytest.mark.parametrize(
    ("objective", "felt"),
    [
        (None, "38 requests/s, 78 % of the mean avoidable"),
        (Objective.parse("mean < 60s"), "objective 60 s, 38 requests/s"),
    ],
)
def test_no_objective_missed_leaves_the_answer_as_it_was(objective: Objective | None, felt: str) -> None:
    explanation = pipeline("safety").explain(objective=objective)
    assert text(explanation).startswith(f"degraded: chat mean 211 ms, {felt}:\n")
    assert headline(explanation) == explanation.actionable[0].summary
