"""The collector against a real Triton."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from diagnostics.demo.environment import find_environment
from diagnostics.demo.faults import DemoFault, load_fault
from diagnostics.demo.server import TritonLauncher
from diagnostics.errors import CollectError
from diagnostics.wire.capture import open_capture
from diagnostics.wire.host import parse_host
from diagnostics.wire.model_config import parse_model_config
from diagnostics.wire.records import BodyKind
from diagnostics.wire.server import parse_statistics
from exporters.sources import triton
from exporters.sources.access import SourceOptions
from exporters.sources.host import find_server
from exporters.sources.schedule import collect
from exporters.sources.triton import discover
from tests.demo.repositories import one_model

pytestmark = pytest.mark.live
OUTPUTS = ("a.tar.xz", "a.tar.gz", "a.tar", "folder")
MODELS = ["embedder", "ensemble", "postprocessing", "preprocessing", "safety", "tensorrt_llm"]


def launched(repository: DemoFault | Path, *arguments: str) -> TritonLauncher:
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    return TritonLauncher(environment, repository, args=arguments, stop_timeout=0.0)


@pytest.fixture(scope="module")
def server() -> Iterator[TritonLauncher]:
    with launched(load_fault("healthy")) as running:
        yield running


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the server ran on another machine, where its ports cannot be looked up."""
    monkeypatch.setattr(triton, "find_server", lambda *_: None)


@pytest.mark.parametrize("port", ["http_url", "grpc_url", "metrics_url"])
def test_from_each_port_the_whole_server_is_found(server: TritonLauncher, port: str):
    found = discover(getattr(server, port))
    assert found.urls == (server.http_url, server.metrics_url)
    assert found.name == f"127.0.0.1:{server.ports.metrics}"
    assert (found.blind_spots, found.notes) == ((), ())


def test_a_round_reads_everything_the_server_has(server: TritonLauncher):
    scrapes = discover(server.http_url).round()
    assert [scrape.error for scrape in scrapes if scrape.error] == []
    assert sorted(scrape.name for scrape in scrapes if scrape.kind is BodyKind.CONFIG) == MODELS


@pytest.mark.usefixtures("far_away")
def test_over_grpc_alone_the_same_is_read(server: TritonLauncher):
    by_grpc = {(s.kind, s.name): s.body for s in discover(server.grpc_url).round() if not s.error}
    by_http = {(s.kind, s.name): s.body for s in discover(server.http_url).round()}
    assert {kind for kind, _ in by_grpc} == {BodyKind.STATISTICS, BodyKind.INDEX, BodyKind.SERVER, BodyKind.CONFIG}
    for name in MODELS:
        over_grpc, over_http = (parse_model_config(found[BodyKind.CONFIG, name]) for found in (by_grpc, by_http))
        assert over_grpc == over_http
    statistics = [parse_statistics(found[BodyKind.STATISTICS, ""]) for found in (by_grpc, by_http)]
    assert [model.name for model in statistics[0]] == [model.name for model in statistics[1]]


@pytest.mark.usefixtures("far_away")
def test_with_a_closed_http_port_statistics_come_over_grpc_and_metrics_from_their_url(server: TritonLauncher):
    found = discover(server.grpc_url, SourceOptions(metrics_url=server.metrics_url))
    assert found.urls == (server.grpc_url, server.metrics_url)
    assert found.blind_spots == ()
    assert "come over gRPC" in found.notes[0]


@pytest.mark.usefixtures("far_away")
def test_of_the_metrics_port_alone_the_gap_says_what_is_hidden(server: TritonLauncher):
    (spot,) = discover(server.metrics_url).blind_spots
    assert "instance counts" in spot.what


@pytest.mark.usefixtures("far_away")
def test_grpc_over_tls_wants_a_trusted_certificate(tmp_path: Path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", *kind, *names, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    files = (f"--grpc-server-cert={cert}", f"--grpc-server-key={key}")
    with launched(one_model(tmp_path), "--allow-metrics=false", "--grpc-use-ssl=true", *files) as server:
        url = server.grpc_url.replace("grpc:", "grpcs:")
        found = discover(url, SourceOptions(ca_file=cert))
        assert found.urls == (url,)
        assert "--allow-metrics=true" in found.blind_spots[0].fix
        with pytest.raises(CollectError, match="certificate is not trusted; see --ca-file"):
            discover(url)


def diag(*arguments: object) -> subprocess.Popen[str]:
    code = "import sys; from diagnostics.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def recorded(server: TritonLauncher, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int, str, str]]:
    """Record the server in every form at once; return of each its place, the exit code and what was printed."""
    folder = tmp_path_factory.mktemp("recorded")
    arguments = ("--for", "4s", "--interval", "1s", "--repository", server.repository)
    running = {name: diag("record", server.http_url, "-o", folder / name, *arguments) for name in OUTPUTS}
    printed = {name: one.communicate(timeout=30) for name, one in running.items()}
    return {name: (folder / name, one.returncode, *printed[name]) for name, one in running.items()}


@pytest.mark.alone
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_recording_reads_back(server: TritonLauncher, recorded: dict[str, tuple[Path, int, str, str]], output: str):
    path, code, result, errors = recorded[output]
    assert code == 0, errors
    assert result.startswith(f"{path}: 127.0.0.1:{server.ports.metrics}, ")
    capture = open_capture(path)
    kinds = [scrape.kind for scrape in capture.scrapes()]
    assert capture.damage is None
    assert capture.manifest.targets == (f"127.0.0.1:{server.ports.metrics}",)
    assert [kinds.count(kind) for kind in (BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.INDEX)] == [5, 5, 5]
    assert kinds.count(BodyKind.CONFIG) == len(MODELS)
    assert kinds.count(BodyKind.HOST) == 5
    assert BodyKind.REPOSITORY in kinds


def test_a_load_test_measures_two_points_and_says_what_each_is_diagnosed_as(server: TritonLauncher, tmp_path: Path):
    options = ("--blocks", "1", "--duration", "1500ms", "--warm-up", "300ms", "--max-tokens", "8", "--output", "json")
    kept = tmp_path / "folder"
    output, errors = diag(
        "bench", server.grpc_url, "--concurrency", "1,4", *options, "--slo", "latency < 10s", "--capture", kept
    ).communicate(timeout=60)
    (target,) = json.loads(output)["targets"]
    assert (target["model"], target["protocol"]) == ("ensemble", "grpc"), errors
    alone, four = (point["blocks"][0] for point in target["points"])
    assert alone["failed"] == four["failed"] == 0
    assert alone["good"] == alone["requests"] > 2
    assert four["throughput"] > 2 * alone["throughput"]
    # A closed loop keeps Little's law, N = X·R; at its ends one request of each client is cut off.
    assert four["throughput"] * four["mean"] == pytest.approx(4, rel=0.3)
    assert all(block["diagnosis"]["verdict"] for block in (alone, four))
    kinds = {scrape.kind for scrape in open_capture(kept).scrapes()}
    assert kinds >= {BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.CONFIG, BodyKind.CLIENT}


def test_ctrl_c_ends_a_recording_early_with_a_valid_capture(server: TritonLauncher, tmp_path: Path):
    path = tmp_path / "a.tar.xz"
    recorder = diag("record", server.http_url, "-o", path, "--interval", "200ms")
    assert recorder.stderr is not None
    recorder.stderr.readline()
    threading.Timer(1.0, recorder.send_signal, (signal.SIGINT,)).start()
    recorder.communicate(timeout=30)
    assert recorder.returncode == 130
    capture = open_capture(path)
    assert BodyKind.METRICS in [scrape.kind for scrape in capture.scrapes()]
    assert capture.damage is None
    assert capture.manifest.window_to is not None


def test_the_host_sample_shows_the_servers_processes(server: TritonLauncher, tmp_path: Path):
    assert find_server("127.0.0.1", (server.ports.metrics,)) == server.pid
    path = tmp_path / "folder"
    diag("record", server.metrics_url, "-o", path, "--for", "1s", "--interval", "1s").communicate(timeout=30)
    samples = [parse_host(s.body) for s in open_capture(path).scrapes() if s.kind is BodyKind.HOST and s.body]
    assert samples[0].server_pid == server.pid
    commands = [process.command for process in samples[0].processes]
    assert commands[0] == "tritonserver"
    assert len(commands) > len(MODELS) - 1


def test_a_server_killed_mid_recording_leaves_reads_that_failed_with_a_reason(tmp_path: Path):
    with launched(one_model(tmp_path)) as server:
        found = discover(server.http_url)
        scrapes = []
        for scrape in collect([found], 0.2, seconds=2.0):
            scrapes.append(scrape)
            if len(scrapes) == 20:
                os.kill(server.pid, signal.SIGKILL)
    before, after = scrapes[:15], scrapes[-3:]
    assert all(scrape.body for scrape in before)
    assert {scrape.error for scrape in after} == {"connection refused"}
