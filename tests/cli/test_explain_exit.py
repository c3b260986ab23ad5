from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.cli.main import main

HEALTHY = "fixtures/captures/cpu-handed-healthy.tar.xz"
SLOW = "fixtures/captures/cpu-handed-single-instance.tar.xz"
NO_CAUSE = "fixtures/benchmark/drawn-0112.tar.xz"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([HEALTHY, "--fail-on", "unknown"], 0),
        ([HEALTHY, "--fail-on", "warning", "--objective", "mean < 1ms"], 1),
        ([SLOW], 0),
        ([SLOW, "--fail-on", "critical"], 1),
        ([NO_CAUSE, "--fail-on", "warning"], 0),
        ([NO_CAUSE, "--fail-on", "unknown"], 1),
    ],
)
def test_the_exit_code_is_what_fail_on_asks_for(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *arguments]) == code
    assert capsys.readouterr().out


def test_a_damaged_capture_is_judged_by_what_came_whole_with_a_warning_and_a_blind_spot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Path(HEALTHY).read_bytes()
    damaged = tmp_path / "cut.tar.xz"
    damaged.write_bytes(whole[: len(whole) * 3 // 4])

    code = main(["explain", str(damaged)])
    reported = capsys.readouterr()

    assert code == 0
    assert "damaged after" in reported.err
    assert "the rest of cut.tar.xz" in reported.out
