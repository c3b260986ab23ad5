from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from diagnostics.cli.diff import command
from diagnostics.diagnosis.diff import DifferenceCause, WindowDiff, difference
from diagnostics.errors import UsageError
from diagnostics.render.diff.document import diff_document, share_lines
from diagnostics.render.diff.html import diff_html
from diagnostics.render.diff.json import diff_report
from diagnostics.render.text import as_text
from diagnostics.tuning.changes import changed_settings
from diagnostics.wire.model_config import parse_model_config
from tests.builders import Stage, SyntheticTriton, model_config
from tests.captures.recorded import FOLDER, explanation_of, labels, scrapes_of

ONE = model_config("m", groups=({"kind": "KIND_CPU", "count": 1},))
TWO = model_config("m", groups=({"kind": "KIND_CPU", "count": 2},))
SLOW = Stage("m", rate=38, execution=0.0245, queue=0.17, config=ONE)


def compared(before: Stage, after: Stage) -> WindowDiff:
    return difference(*(SyntheticTriton(models=(stage,)).explain() for stage in (before, after)))


def pairs() -> list[tuple[str, str]]:
    entries = json.loads((FOLDER / "labels.json").read_text())
    return [(entry["pair"], name) for name, entry in entries.items() if "pair" in entry]


@pytest.mark.parametrize(("sick", "cured"), pairs())
def test_the_repaired_configuration_of_a_recorded_incident_explains_its_latency(sick: str, cured: str) -> None:
    found = difference(explanation_of(scrapes_of(sick)), explanation_of(scrapes_of(cured)))
    (entry, *_) = found.entries

    assert entry.matters
    assert entry.main is not None
    assert (entry.main.cause, entry.main.model) == (DifferenceCause.CONFIGURATION, labels()[sick].model)
    assert not entry.load_differs
    assert {finding.check for finding in found.gone} >= labels()[sick].causes & {
        f.check for f in found.before.actionable
    }


@pytest.mark.parametrize(("sick", "cured"), pairs())
def test_shares_add_up_to_what_changed_in_the_cells(sick: str, cured: str) -> None:
    found = difference(explanation_of(scrapes_of(sick)), explanation_of(scrapes_of(cured)))

    for entry in found.entries:
        assert sum(share.seconds for share in entry.shares) == pytest.approx(sum(cell.change for cell in entry.cells))
        written = (text.replace("−", "-").split() for text, _ in share_lines(entry))
        shown = sum(float(value) * {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[unit] for value, unit in written)
        assert shown == pytest.approx(entry.change, abs=0.01 * max(abs(entry.change), entry.mean_before.value or 0.0))


def test_a_window_compared_with_itself_shows_no_change() -> None:
    found = compared(SLOW, SLOW)

    assert not found.entries[0].matters
    assert (found.configured, found.versions, found.gone, found.new) == ((), (), (), ())


def test_more_load_alone_is_the_loads_doing() -> None:
    (entry,) = compared(replace(SLOW, rate=20, queue=0.01), SLOW).entries

    assert entry.load_differs
    assert entry.main is not None
    assert entry.main.cause is DifferenceCause.LOAD


def test_less_load_is_never_the_reason_for_waiting_longer() -> None:
    (entry,) = compared(replace(SLOW, rate=38, queue=0.01), replace(SLOW, rate=20)).entries

    assert entry.load_differs
    assert entry.main is None


def test_settings_and_load_that_both_changed_are_distinguished_by_the_scheduler_model() -> None:
    after = Stage("m", rate=38, execution=0.0245, queue=0.004, config=TWO)
    (entry,) = compared(Stage("m", rate=20, execution=0.0245, queue=0.012, config=ONE), after).entries
    by = {share.cause: share.seconds for share in entry.shares}

    # Twice the load would have made the old queue longer, so the second instance did more than the difference shows.
    assert by[DifferenceCause.LOAD] > 0.05
    assert by[DifferenceCause.CONFIGURATION] < -0.05


def test_a_new_version_that_computes_longer_is_the_versions_doing() -> None:
    (entry,) = compared(SLOW, replace(SLOW, version="2", execution=0.08, rate=10, queue=0.17)).entries

    assert entry.main is not None
    assert (entry.main.cause, entry.main.why) == (DifferenceCause.VERSION, "version 1 → 2")


def test_what_nothing_explains_is_stated_to_be_so() -> None:
    found = compared(SLOW, replace(SLOW, execution=0.12, rate=38))

    assert found.entries[0].main is None
    assert "nothing that was recorded explains it" in as_text(diff_document(found)).replace("\n  ", " ")


def test_what_is_diagnosed_on_the_slower_side_alone_stands_where_no_change_explains_it() -> None:
    healthy, full = (explanation_of(scrapes_of(f"cpu-handed-{name}")) for name in ("healthy", "kv-exhausted"))
    for found, side in ((difference(healthy, full), "after"), (difference(full, healthy), "before")):
        stated = f"diagnosed only {side}: kv-cache-exhausted of llm"

        assert found.entries[0].main is None
        assert stated in " ".join(as_text(diff_document(found)).split())
        assert stated in diff_html(found)


def test_settings_are_reported_in_the_words_of_the_file() -> None:
    before = parse_model_config(json.dumps(model_config("m", max_batch=8)).encode())
    after = parse_model_config(
        json.dumps(model_config("m", max_batch=16, batching={"max_queue_delay_microseconds": 500})).encode()
    )

    assert [str(change) for change in changed_settings("m", before, after)] == [
        "dynamic_batching off → on",
        "max_batch_size 8 → 16",
    ]
    assert changed_settings("m", before, None) == ()


def test_text_and_json_say_the_same() -> None:
    found = compared(SLOW, replace(SLOW, queue=0.004, config=TWO))
    report, text = diff_report(found), as_text(diff_document(found))

    assert report["kind"] == "difference"
    assert report["entries"][0]["explained_by"]["why"] == "instance_group.count 1 → 2"
    assert "configuration of m explains it: instance_group.count 1 → 2" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    json.dumps(report, allow_nan=False)


class TestCommand:
    def run(self, *arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(command, arguments, catch_exceptions=True)
        if isinstance(done.exception, UsageError):
            return done.exception.exit_code, str(done.exception)
        return done.exit_code, done.output

    def test_two_captures_are_compared(self) -> None:
        sick, cured = pairs()[0]
        code, output = self.run(str(FOLDER / f"{sick}.tar.xz"), str(FOLDER / f"{cured}.tar.xz"), "--output", "json")

        assert code == 0
        assert json.loads(output)["entries"][0]["matters"]

    def test_two_moments_of_one_capture_are_compared(self) -> None:
        capture = str(FOLDER / "cpu-handed-cold-start.tar.xz")
        code, output = self.run(capture, "--at", "21:12:54", "--at", "21:13:02", "--since", "8s")

        assert code == 0
        assert "version 1 → 1, 2" in output

    @pytest.mark.parametrize(
        ("arguments", "stated"),
        [
            (("a.tar.xz",), "one capture needs two moments"),
            (("a.tar.xz", "--at", "1", "--at", "2"), "--since"),
            (("a.tar.xz", "b.tar.xz", "c.tar.xz"), "two captures at most"),
            (("a.tar.xz", "b.tar.xz", "--at", "1"), "a moment for each side"),
            (("http://triton:8000", "b.tar.xz"), "only captures can be compared"),
        ],
    )
    def test_what_cannot_be_compared_is_refused_with_a_hint(self, arguments: tuple[str, ...], stated: str) -> None:
        code, output = self.run(*arguments)

        assert code == 2
        assert stated in output
