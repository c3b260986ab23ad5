from __future__ import annotations

import re
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from fake_triton import FakeTriton, fake_triton, free_ports, guarded, page, status

from diagnostics.cli.main import main
from diagnostics.units import parse_duration
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind, Scrape

SHORT = ("--for", "300ms", "--interval", "100ms", "--timeout", "1s")
# Where each round counts: on a busy machine one is still under way after 100 ms.
UNHURRIED = ("--for", "1500ms", "--interval", "500ms", "--timeout", "1s")


def record(*sources: str, output: Path, options: tuple[str, ...] = SHORT) -> int:
    return main(["record", *sources, "-o", str(output), *options])


def scrapes_of(path: Path) -> list[Scrape]:
    return list(open_capture(path).scrapes())


def protect(fake: FakeTriton, expected: str) -> None:
    for part in (fake.api, fake.metrics):
        assert part is not None
        part.routes = {path: guarded(expected, answer) for path, answer in part.routes.items()}


def test_the_result_goes_to_standard_output_and_progress_to_standard_error(tmp_path, capsys):
    output = tmp_path / "a.tar.xz"
    with fake_triton() as fake:
        assert record(f"127.0.0.1:{fake.port}", output=output) == 0
    captured = capsys.readouterr()
    assert re.match(rf"{re.escape(str(output))}: 127\.0\.0\.1:{fake.port + 2}, \d{{3}} ms, ", captured.out)
    assert captured.out.count("\n") == 1
    assert captured.err.startswith(f"recording 127.0.0.1:{fake.port + 2} for 300 ms")
    assert "not recorded" not in captured.err


def test_a_recording_holds_every_round_of_every_server(tmp_path):
    output = tmp_path / "a.tar.xz"
    with fake_triton() as one, fake_triton() as two:
        assert record(f"127.0.0.1:{one.port}", f"127.0.0.1:{two.port + 2}", output=output) == 0
    names = {f"127.0.0.1:{fake.port + 2}" for fake in (one, two)}
    assert set(open_capture(output).manifest.targets) == names
    rounds = Counter((scrape.server, scrape.kind) for scrape in scrapes_of(output))
    # Four rounds begin in 300 ms; on a busy machine some may be skipped, for a round never waits behind another.
    assert {rounds[name, kind] for name in names for kind in (BodyKind.METRICS, BodyKind.STATISTICS)} <= {1, 2, 3, 4}
    assert set(rounds) >= {(name, kind) for name in names for kind in (BodyKind.METRICS, BodyKind.STATISTICS)}


def test_what_could_not_be_read_is_reported_with_its_reason(tmp_path, capsys):
    output = tmp_path / "a.tar.xz"
    with fake_triton(metrics=False) as fake:
        fake.api.routes["GET /v2/models/stats"] = status(503, b'{"error": "busy"}')
        assert record(f"127.0.0.1:{fake.port}", output=output, options=UNHURRIED) == 0
    errors = capsys.readouterr().err
    assert re.search(rf"127\.0\.0\.1:{fake.port} stats: HTTP 503: busy \((\d) of \1 reads\)", errors)
    assert "GPU gauges" in errors
    assert "--metrics-url" in errors
    failed = [scrape for scrape in scrapes_of(output) if scrape.error]
    assert errors.count("no metrics page: connection refused") == 1
    reasons = {(scrape.kind, (scrape.error or "").partition(":")[0]) for scrape in failed}
    assert reasons == {(BodyKind.STATISTICS, "HTTP 503"), (BodyKind.METRICS, "no metrics page")}


def test_one_server_that_is_not_found_does_not_keep_the_others_from_being_recorded(tmp_path, capsys):
    output = tmp_path / "a.tar.xz"
    with fake_triton() as fake:
        assert record(f"127.0.0.1:{fake.port}", f"127.0.0.1:{free_ports()}", output=output) == 3
    assert "no Triton found" in capsys.readouterr().err
    assert scrapes_of(output)


def test_when_no_server_is_found_nothing_is_written(tmp_path, capsys):
    output = tmp_path / "a.tar.xz"
    assert record(f"127.0.0.1:{free_ports()}", output=output) == 3
    assert not output.exists()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_early_with_a_valid_capture(tmp_path, number):
    output = tmp_path / "a.tar.xz"
    handler = signal.getsignal(number)
    with fake_triton() as fake:
        timer = threading.Timer(1.0, signal.raise_signal, (number,))
        timer.start()
        code = record(f"127.0.0.1:{fake.port}", output=output, options=("--interval", "100ms"))
        timer.join()
    assert code == 130
    assert signal.getsignal(number) is handler
    assert open_capture(output).damage is None
    assert BodyKind.METRICS in [scrape.kind for scrape in scrapes_of(output)]


def test_an_existing_file_is_replaced_only_by_force(tmp_path, capsys):
    output = tmp_path / "a.tar"
    output.write_text("precious")
    with fake_triton() as fake:
        assert record(f"127.0.0.1:{fake.port}", output=output) == 2
        assert output.read_text() == "precious"
        assert "--force" in capsys.readouterr().err
        assert record(f"127.0.0.1:{fake.port}", output=output, options=(*SHORT, "--force")) == 0
    assert scrapes_of(output)


def test_secrets_in_bodies_are_not_recorded(tmp_path):
    output = tmp_path / "folder"
    secret = b'{"name": "safety", "parameters": {"hf_token": {"string_value": "hf_s3cret"}}}'
    with fake_triton() as fake:
        fake.api.routes["GET /v2/models/safety/config"] = page(secret, "application/json")
        assert record(f"127.0.0.1:{fake.port}", output=output) == 0
    (config,) = [scrape for scrape in scrapes_of(output) if scrape.name == "safety"]
    assert b"hf_token" in config.body
    assert b"s3cret" not in config.body


def test_an_anonymous_recording_shows_neither_server_nor_models(tmp_path):
    output = tmp_path / "folder"
    with fake_triton() as fake:
        source = f"127.0.0.1:{fake.port}"
        assert record(source, output=output, options=(*SHORT, "--anonymize")) == 0
    written = b"".join(str(path).encode() + path.read_bytes() for path in output.rglob("*") if path.is_file())
    assert b"safety" not in written
    assert str(fake.port + 2).encode() not in written
    targets = set(open_capture(output).manifest.targets)
    assert {scrape.server for scrape in scrapes_of(output)} == targets


def test_the_models_own_files_are_kept_beside(tmp_path):
    model = tmp_path / "models" / "safety"
    model.mkdir(parents=True)
    (model / "config.pbtxt").write_text("max_batch_size: 1\n")
    output = tmp_path / "a.tar"
    with fake_triton() as fake:
        options = (*SHORT, "--repository", str(tmp_path / "models"))
        assert record(f"127.0.0.1:{fake.port}", output=output, options=options) == 0
    assert [s.name for s in scrapes_of(output) if s.kind is BodyKind.REPOSITORY] == ["safety/config.pbtxt"]


@pytest.mark.parametrize("way", ["environment", "file"])
def test_a_token_comes_from_environment_or_file_and_shows_nowhere(tmp_path, capsys, monkeypatch, way):
    file = tmp_path / "token"
    file.write_text("t0ken\n")
    if way == "environment":
        monkeypatch.setenv("DIAG_BEARER_TOKEN", "t0ken")
    options = ("--bearer-token-file", str(file)) if way == "file" else ()
    output = tmp_path / "folder"
    with fake_triton() as fake:
        protect(fake, "Bearer t0ken")
        assert record(f"127.0.0.1:{fake.port}", output=output, options=(*SHORT, *options)) == 0
    captured = capsys.readouterr()
    assert "t0ken" not in captured.out + captured.err
    assert not any(b"t0ken" in path.read_bytes() for path in output.rglob("*") if path.is_file())


def test_without_credentials_the_refusal_says_that_they_are_missing(tmp_path, capsys):
    with fake_triton() as fake:
        protect(fake, "Bearer t0ken")
        assert record(f"127.0.0.1:{fake.port}", output=tmp_path / "a.tar") == 3
    assert "HTTP 401, credentials are missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "stated"),
    [
        (("--for", "soon"), "not a duration"),
        (("--for", "0s"), "not a duration"),
        (("--for", "1s", "--interval", "2s"), "shorter than its interval"),
        (("--header", "Authorization: Bearer x"), "would show a secret"),
        (("--header", "nonsense"), "NAME:VALUE"),
        (("--bearer-token-file", "/nonexistent"), "no such file"),
    ],
)
def test_a_wrong_option_is_a_usage_error(tmp_path, capsys, options, stated):
    assert record("127.0.0.1:1", output=tmp_path / "a.tar", options=options) == 2
    assert stated in capsys.readouterr().err


def test_explicit_endpoints_fit_one_source_only(tmp_path, capsys):
    options = (*SHORT, "--metrics-url", "http://a:1/metrics")
    assert record("a:8000", "b:8000", output=tmp_path / "a.tar", options=options) == 2
    assert "fits one SOURCE only" in capsys.readouterr().err


def test_user_and_password_need_a_colon(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("DIAG_BASIC_AUTH", "s3cret")
    assert record("127.0.0.1:1", output=tmp_path / "a.tar") == 2
    errors = capsys.readouterr().err
    assert "DIAG_BASIC_AUTH: is not of the form user:password" in errors
    assert "s3cret" not in errors


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("60s", 60), ("2m", 120), ("1h30m", 5400), ("1.5s", 1.5), ("7", 7), ("", None), ("5x", None)],
)
def test_durations_are_read_in_seconds(text, seconds):
    assert parse_duration(text) == seconds
