"""What `diag tune` proposes where a change would save nothing, and where the window is not reproduced."""

from __future__ import annotations

import functools

import pytest
from click.testing import CliRunner

from diagnostics.cli import tune, tuning
from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.diagnosis.proposing import SourceEvidence
from diagnostics.forecast import capacity
from tests.builders import Stage, SyntheticTriton, chain, model_config
from tests.diagnosis.test_off_the_path import FULL, WINDOW, forked
from tests.forecast import tunable


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "tune", functools.partial(tunable.tune, draws=4))
    shorter = functools.partial(tuning.performance, draws=1, visits=tunable.VISITS)
    monkeypatch.setattr(tuning, "performance", shorter)
    monkeypatch.setattr(capacity, "VISITS", tunable.VISITS)


def run(monkeypatch: pytest.MonkeyPatch, server: SyntheticTriton, *arguments: str) -> str:
    evidence = server.evidence()
    window = WindowFacts(start=evidence.window.start, end=evidence.window.end, sources=("triton-0",))
    monkeypatch.setattr(tune, "see", lambda _: SourceEvidence(evidence=evidence, window=window))
    done = CliRunner().invoke(tune.command, ["there", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_window_on_a_branch_that_nobody_waits_for_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    server = forked(WINDOW, left=0.1, whole=0.109)
    stated = run(monkeypatch, server, "--objective", "mean < 100ms")

    assert stated.startswith("chat: no setting found meets mean < 100ms; nearest is ")
    assert "right" not in stated.partition("\n\n")[0]


def test_the_branch_that_requests_wait_for_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = forked(FULL, left=0.01, whole=0.0935)
    stated = run(monkeypatch, server, "--objective", "mean < 60ms")

    assert stated.startswith("chat: right instance_group.count 1 → 2 should meet mean < 60ms")


def test_the_first_lines_say_that_the_window_is_not_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 76 % an instance makes requests wait some tens of milliseconds, not for 5.4 seconds."""
    safety = Stage("safety", rate=38, execution=0.02, queue=5.4, config=model_config("safety"))
    chat = Stage("chat", rate=38, overhead=5.422, config=chain("chat", "safety"))
    stated = run(monkeypatch, SyntheticTriton(models=(safety, chat)), "--objective", "p95 < 60ms")
    first_lines = " ".join(" ".join(stated.splitlines()[:3]).split())

    assert "possible, not certain: the model does not reproduce the measurement" in first_lines
    assert "measured over 60 s: mean 5.42 s" in stated
