"""How a load test ends: interrupted, out of time, without a place for its report; and what of it stays."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diagnostics.bench.block import RequestLimits
from diagnostics.cli.interrupting import interruptible
from diagnostics.cli.main import main
from diagnostics.loadgen import watching
from diagnostics.loadgen.sweep import Contender, LoadSweep, Plan
from diagnostics.loadgen.transport import Reply
from diagnostics.loadgen.watching import OutOfTimeError, deadline
from diagnostics.render.bench.json import bench_json
from diagnostics.window.window import window_of
from tests.builders import START, Stage, SyntheticTriton, explained, model_config
from tests.loadgen.reports import block, report, target


def test_work_ends_at_its_deadline_or_at_once_on_ctrl_c() -> None:
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(OutOfTimeError), deadline(0.02):
        sum(0 for _ in iter(int, 1))
    with pytest.raises(KeyboardInterrupt), deadline(60):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


def test_sigterm_ends_a_measurement_once_and_nothing_interrupts_its_end() -> None:
    handler = signal.getsignal(signal.SIGINT)
    with interruptible() as settle:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        settle()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


def test_sigterm_ends_what_a_shell_started_in_the_background_with_ctrl_c_ignored() -> None:
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), interruptible():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, handler)


class Answering:
    """A transport that answers at once."""

    async def ask(self, _: int) -> Reply:
        await asyncio.sleep(0.001)
        return Reply()


def swept(diagnose: Callable[..., Any]) -> LoadSweep:
    watcher = SimpleNamespace(watch=lambda *_: None, diagnose=diagnose)
    watcher.watch = lambda *_: SimpleNamespace(cancel=lambda: None)
    shown = target({})
    asked = SimpleNamespace(
        endpoint=SimpleNamespace(name="a:8000", protocol="http"),
        transport=Answering(),
        requests=SimpleNamespace(values=(1,)),
        model="m",
        workload=shown.workload,
        count=lambda _: None,
    )
    plan = Plan(loads=(1.0,), closed=True, seconds=0.02, warm_up=0.0, blocks=2)
    contender = Contender(target=asked, watcher=watcher)  # type: ignore[arg-type]
    return LoadSweep(plan=plan, contenders=[contender], limits=RequestLimits(), announce=lambda _: None)


def test_who_ends_a_test_during_a_diagnosis_keeps_what_was_measured() -> None:
    def diagnose(*_: Any) -> None:
        raise KeyboardInterrupt

    sweep = swept(diagnose)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(sweep.run())
    (point,) = sweep.report().targets[0].points
    assert len(point.blocks) == 1
    assert (point.blocks[0].requests > 0, sweep.report().ended) == (True, "interrupted")


@pytest.mark.parametrize(
    ("explained", "stated"), [(False, "not explained within 20 s"), (True, "not proven within 20 s")]
)
def test_a_cause_that_is_not_proven_in_time_is_none(
    monkeypatch: pytest.MonkeyPatch, *, explained: bool, stated: str
) -> None:
    def late(_: Any, __: str, announce: Callable[[Any], None]) -> None:
        if explained:
            announce("found")
        raise OutOfTimeError

    known = watching.Diagnosis(verdict="degraded", cause="x of y", text="x it is")
    monkeypatch.setattr(watching, "diagnosis", lambda _: known)
    watcher = object.__new__(watching.Watcher)
    monkeypatch.setattr(watcher, "_explained", late)
    found = watcher._bounded([], "m")
    assert (found.cause, stated in found.text) == ("", True)
    monkeypatch.setattr(watcher, "_explained", lambda *_: 1 / 0)
    assert "ZeroDivisionError" in watcher._bounded([], "m").text


class Full(io.StringIO):
    """A standard output on a full disk."""

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_report_that_cannot_be_written_is_shown_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(bench_json(report(target({1.0: [block(9, 0.1)]}))))
    monkeypatch.setattr(sys, "stdout", Full())
    assert main(["bench", str(path), "--output", "json"]) == 3
    shown = capsys.readouterr().err
    assert json.loads(shown[: shown.rindex("}") + 1])["targets"][0]["points"]
    assert "no space left on device" in shown


@pytest.mark.parametrize(("share", "others"), [(1.0, 0.0), (0.75, 10.0)])
def test_requests_that_the_test_did_not_send_are_those_that_the_server_counted_beside_them(
    share: float, others: float
) -> None:
    triton = SyntheticTriton(models=(Stage("safety", rate=40.0, execution=0.01, config=model_config("safety")),))
    found = explained(window_of(triton.scrapes()))
    watcher = object.__new__(watching.Watcher)
    watcher._clock = START
    ends = [number / (40.0 * share) for number in range(int(60 * 40 * share))]
    assert watcher._others(found, "safety", ends) == pytest.approx(others, abs=0.2)
    assert watcher._others(found, "another", ends) is None
