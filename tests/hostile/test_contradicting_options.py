"""An option that would not be read is refused: nobody shall take the answer for one that it was asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from diagnostics.cli import tune
from diagnostics.cli.main import main
from diagnostics.errors import UsageError
from diagnostics.settings.load import load
from tests.captures.recorded import FOLDER

CAPTURE = str(FOLDER / "cpu-handed-single-instance.tar.xz")
OBJECTIVES = str(Path(__file__).parents[2] / "rules/slo/example.yaml")
STORE = "prometheus+http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("command", "stated"),
    [
        (["explain", CAPTURE, "--metrics-url", "http://x:8002/metrics"], "--metrics-url: is for servers"),
        (["whatif", CAPTURE, "--rate", "2x", "--timeout", "1s", "--insecure"], "--timeout, --insecure: is for servers"),
        (["explain", STORE, "--dcgm-url", "http://x:9400"], "--dcgm-url: is for servers"),
        (["explain", "--engine-iterations"], "--engine-iterations: not for a running service"),
        (["explain", "--history", ".", "--repository", "."], "--repository: is not read for a history"),
        (["explain", "--history", ".", "--config.file", __file__], "--history, --config.file: both name a history"),
        (["explain", CAPTURE, "--why-not", "cold-start", "--output", "json"], "--why-not: is text"),
        (["explain", "--why-not", "cold-start", "--fail-on", "warning"], "--fail-on: is not told with"),
        (["watch", "--interval", "3s", "--grpc-url", "x"], "--interval, --grpc-url: not for a running service"),
        (["slo", CAPTURE, "--slo", OBJECTIVES, "--url", "http://x"], "--url: asks a running service"),
        (["slo", CAPTURE, "--slo", OBJECTIVES, "--header", "A:b"], "--header: is for servers"),
        (["gen", "--check", "rules"], "--check: is before rules"),
        (["gen", "rules", "--timeout", "3s"], "--timeout: is for a replay"),
        (["gen", "rules", "--replay", "http://x", "--runbooks", "y"], "leave out --runbooks"),
        (["lint", "--rules", "--output", "json"], "--rules: shows a page and lints nothing"),
        (["lint", "--explain", "no-warm-up", "models"], "--explain: shows a page and lints nothing"),
        (["demo", "--list", "--fault", "bursty"], "--list: lists the faults and runs none"),
        (["demo", "--duration", "1s"], "--duration: is too short a load"),
        (["serve", "triton:8000", "--systemd-unit"], "--systemd-unit: takes no SOURCE"),
    ],
)
def test_an_option_that_would_not_be_read_is_refused(
    command: list[str], stated: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "rules").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIAG_HISTORY__DIRECTORY", raising=False)
    assert main(command) == 2
    shown = capsys.readouterr()
    assert stated in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert not list((tmp_path / "rules").iterdir())


def test_a_setting_with_an_underscore_too_few_is_refused() -> None:
    with pytest.raises(UsageError, match=r"DIAG_WEB_LISTEN_ADDRESS: .* write DIAG_WEB__LISTEN_ADDRESS"):
        load(None, {"DIAG_WEB_LISTEN_ADDRESS": "127.0.0.1:1"}, {})
    load(None, {"DIAG_BEARER_TOKEN": "t", "DIAG_DEBUG": "1", "DIAG_TRITON_ENV": "/x"}, {})


def test_the_events_of_a_recording_count_once(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert main(["slo", CAPTURE, CAPTURE, "--slo", OBJECTIVES]) == 0
    assert "1,371 events" in capsys.readouterr().out
    copy = shutil.copy(CAPTURE, tmp_path / "copy.tar.xz")
    assert main(["slo", CAPTURE, str(copy), "--slo", OBJECTIVES]) == 2
    assert "holds 'triton-0' at a time when" in capsys.readouterr().err


def test_events_of_a_damaged_recording_are_reported_as_some_of_them(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    torn = tmp_path / "torn.tar.xz"
    torn.write_bytes(Path(CAPTURE).read_bytes()[:20_000])
    main(["slo", str(torn), "--slo", OBJECTIVES])
    assert "torn.tar.xz: damaged after" in capsys.readouterr().err


def test_what_cannot_be_written_does_not_cost_the_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("see", "tuned"):
        monkeypatch.setattr(tune, name, lambda *_: None)
    monkeypatch.setattr(tune, "confirming", lambda *_: "a load test")
    monkeypatch.setattr(tune, "_show", lambda *_: print("the answer"))
    (tmp_path / "confirm.sh").symlink_to("/dev/full")
    assert main(["tune", CAPTURE, "--objective", "p95 < 1s", "--export", str(tmp_path / "confirm.sh")]) == 3
    shown = capsys.readouterr()
    assert shown.out == "the answer\n"
    assert "confirm.sh: cannot be written: no space left on device" in shown.err


class _Prometheus(BaseHTTPRequestHandler):
    body = b'{"status":"success","data":{"activeTargets":[]}}'

    def do_GET(self) -> None:
        self.send_response(200)
        for header in ("Diag-Verdict", "Diag-Severities", "Diag-Window-To"):
            self.send_header(header, "soon")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def prometheus() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Prometheus) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    "command",
    [
        ["explain"],
        ["explain", "--deployment", "d"],
        ["explain", "--deployment", "d", "--why-not", "cold-start"],
        ["watch", "--once"],
        ["slo"],
    ],
)
def test_a_program_that_is_not_the_service_is_reported_as_one(
    command: list[str], prometheus: str, capsys: pytest.CaptureFixture[str]
):
    assert main([*command, "--url", prometheus]) == 3
    assert "answers, but not as diag serve does" in capsys.readouterr().err
