"""The launcher and the load against a real server: it serves, explains its end, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import urllib3

from diagnostics.demo.environment import TritonEnvironment, find_environment, reference_root
from diagnostics.demo.faults import load_fault, make_release, materialise
from diagnostics.demo.server import HOST, Ports, TritonLauncher
from diagnostics.errors import CollectError, UsageError
from diagnostics.loadgen.driving import Action, run_load
from diagnostics.loadgen.load import LoadProfile, Pattern, summarise
from tests.demo.repositories import one_model, only

pytestmark = pytest.mark.live
# Seconds that a server gets for its end: by default it takes some to unload its models, one instance after another.
SOON = 0.0

CHILD = """
import sys
from pathlib import Path
from diagnostics.demo.environment import find_environment
from diagnostics.demo.server import TritonLauncher
with TritonLauncher(find_environment(), Path(sys.argv[1])) as server:
    print(server.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def environment() -> TritonEnvironment:
    found = find_environment()
    if found is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    return found


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return one_model(tmp_path)


@pytest.fixture
def nothing_left(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files; after the test no process, file or memory region of a launcher is left.

    Everything a launcher starts has that folder in its command line, so that servers of other tests do not count.
    """
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    regions = memory_regions()
    yield folder
    wait_until(lambda: not processes(folder))
    wait_until(lambda: not list(folder.iterdir()))
    wait_until(lambda: not (memory_regions() - regions))


def processes(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def memory_regions() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("diag-triton-*") if path.name.split("-")[2] in MINE}


# Regions carry the launching process's id; those of servers that other people run do not count.
MINE = {str(os.getpid())}


def wait_until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not after {seconds:.0f} s"
        time.sleep(0.05)


def statistics(server: TritonLauncher) -> dict[str, Any]:
    body = urllib3.request("GET", f"{server.http_url}/v2/models/stats").json()
    return {model["name"]: model for model in body["model_stats"]}


def mean_queue(model: dict[str, Any], before: dict[str, Any] | None = None) -> float:
    """Seconds a request waited; of those since `before`."""
    now, then = model["inference_stats"], (before or {}).get("inference_stats")
    requests = now["success"]["count"] - (then["success"]["count"] if then else 0)
    return (now["queue"]["ns"] - (then["queue"]["ns"] if then else 0)) / requests / 1e9


def busy_share(model: dict[str, Any], seconds: float) -> float:
    phases = ("compute_input", "compute_infer", "compute_output")
    return sum(size[phase]["ns"] for size in model["batch_stats"] for phase in phases) / 1e9 / seconds


def test_a_server_serves_its_three_ports_refuses_loads_that_fail_and_leaves_nothing_behind(
    environment: TritonEnvironment, nothing_left: Path
) -> None:
    stated: list[str] = []
    with TritonLauncher(environment, load_fault("healthy"), log=stated.append) as server:
        server.check()
        page = urllib3.request("GET", server.metrics_url).data.decode()
        assert server.pid in processes(nothing_left)
        assert server.repository.is_relative_to(nothing_left)
        with socket.create_connection((HOST, server.ports.grpc), timeout=5):
            pass
        with pytest.raises(UsageError, match="no model 'no-such'"):
            run_load(server.http_url, LoadProfile(model="no-such", rate=1, duration=1))
        with pytest.raises(ZeroDivisionError):
            run_load(server.http_url, LoadProfile(rate=5, duration=60), actions=[Action(at=0.2, do=lambda: 1 / 0)])  # type: ignore[arg-type,return-value]
    assert 'nv_inference_count{model="safety",version="1"}' in page
    assert 'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"}' in page
    assert re.fullmatch(r"loading models: \d of 6", stated[0])
    assert stated[-1] == f"server ready at {server.http_url}"


def test_a_server_that_dies_is_noticed_and_cleaned_up(
    environment: TritonEnvironment, nothing_left: Path, small: Path
) -> None:
    with TritonLauncher(environment, small, stop_timeout=SOON) as server:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(CollectError, match="the server ended by signal 9"):
            wait_until(lambda: bool(server.check()))


def test_a_supervisor_that_is_killed_takes_the_server_with_it(
    environment: TritonEnvironment, nothing_left: Path, small: Path
) -> None:
    with TritonLauncher(environment, small, stop_timeout=SOON) as server:
        os.kill(parent(server.pid), signal.SIGKILL)
        with pytest.raises(CollectError, match="supervisor was ended"):
            wait_until(lambda: bool(server.check()))


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda end: end.name)
def test_nothing_outlives_a_launching_process_that_is_ended(
    environment: TritonEnvironment, nothing_left: Path, small: Path, end: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, small], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as launching:
        assert launching.stdout is not None
        MINE.add(str(launching.pid))
        assert select.select([launching.stdout], [], [], 60)[0]
        server = int(launching.stdout.readline())
        assert server in processes(nothing_left)
        launching.send_signal(end)
        launching.wait(30)


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("safety/1/model.py", "class ", "clas ", "SyntaxError"),
        ("safety/config.pbtxt", "max_batch_size", "max_bach_size", "Poll failed for model directory 'safety'"),
        ("ensemble/config.pbtxt", "max_batch_size: 16", "max_batch_size: 64", "allows maximum batch size 64"),
        ("tensorrt_llm/config.pbtxt", "guaranteed_no_evict", "max_utilization", "knows no batch_scheduler_policy"),
    ],
)
def test_a_server_that_does_not_start_says_why(
    environment: TritonEnvironment, nothing_left: Path, tmp_path: Path, file: str, old: str, new: str, reason: str
) -> None:
    repository = materialise(load_fault("healthy"), tmp_path / "repository")
    model = file.partition("/")[0]
    if model != "ensemble":
        only(model, repository)
    path = repository / file
    path.write_text(path.read_text("utf-8").replace(old, new))
    with (
        pytest.raises(CollectError, match=reason) as raised,
        TritonLauncher(environment, repository, stop_timeout=SOON),
    ):
        pass
    assert "\n" not in str(raised.value)
    assert path.exists()


@pytest.mark.parametrize("taken", ["http", "grpc", "metrics"])
def test_a_port_that_another_process_takes_meanwhile_is_given_up_for_another(
    environment: TritonEnvironment, nothing_left: Path, small: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    with socket.create_server((HOST, 0)) as other:
        free = Ports.free
        offers = iter([replace(free(), **{taken: other.getsockname()[1]})])
        monkeypatch.setattr(Ports, "free", lambda: next(offers, None) or free())
        with TritonLauncher(environment, small, stop_timeout=SOON) as server:
            assert other.getsockname()[1] not in {server.ports.http, server.ports.grpc, server.ports.metrics}


def test_given_ports_are_used_or_refused(environment: TritonEnvironment, nothing_left: Path, small: Path) -> None:
    with socket.create_server((HOST, 0)) as other:
        ports = replace(Ports.free(), http=other.getsockname()[1])
        with (
            pytest.raises(CollectError, match="already in use"),
            TritonLauncher(environment, small, ports=ports, stop_timeout=SOON),
        ):
            pass


def test_a_changed_instance_count_is_taken_over_in_place(environment: TritonEnvironment, nothing_left: Path) -> None:
    with TritonLauncher(environment, load_fault("single-instance"), stop_timeout=SOON) as server:
        run_load(server.http_url, LoadProfile(rate=10, duration=1))
        path = server.repository / "safety" / "config.pbtxt"
        path.write_text(path.read_text("utf-8").replace("count: 1", "count: 3"))
        server.load_model("safety")
        config = urllib3.request("GET", f"{server.http_url}/v2/models/safety/config").json()
        assert config["instance_group"][0]["count"] == 3
        assert statistics(server)["safety"]["inference_count"] == 10  # a model that is loaded anew counts from 0
        path.write_text("no configuration")
        with pytest.raises(CollectError, match="cannot load safety"):
            server.load_model("safety")
        server.check()


@pytest.mark.alone
def test_the_healthy_deployment_hardly_queues_and_a_release_that_goes_live_under_load_is_slow_at_first(
    environment: TritonEnvironment, nothing_left: Path
) -> None:
    fault = load_fault("cold-start")  # before its release it is the healthy deployment
    with TritonLauncher(environment, fault, stop_timeout=SOON) as server:
        run_load(server.http_url, replace(fault.load, duration=2))  # the first execution of each instance is slow
        before = statistics(server)
        healthy = run_load(server.http_url, replace(fault.load, duration=6))
        after = statistics(server)
        release = Action(at=1.0, do=lambda: server.load_model(make_release(fault, server.repository).model))
        released = summarise(run_load(server.http_url, replace(fault.load, duration=6), actions=[release]))
        assert statistics(server)["safety"]["version"] == "2"
    summary = summarise(healthy)
    assert (summary.requests, summary.errors) == (108, 0)
    assert summary.p50_ms is not None
    assert 80 < summary.p50_ms < 250
    assert max(mean_queue(after[name], before[name]) for name in after) < 0.03
    assert all(record.ms > 0 and record.delay_ms >= 0 for record in healthy)
    assert released.errors == 0
    assert released.p99_ms is not None
    assert released.p99_ms > 1800


@pytest.mark.alone
def test_the_single_instance_is_busy_and_its_queue_long_and_three_mend_it(
    environment: TritonEnvironment, nothing_left: Path
) -> None:
    fault = load_fault("single-instance")
    load = replace(fault.load, duration=6)
    with TritonLauncher(environment, fault, stop_timeout=SOON) as server:
        run_load(server.http_url, load)
        before = statistics(server)["safety"]
        path = server.repository / "safety" / "config.pbtxt"
        path.write_text(path.read_text("utf-8").replace("count: 1", "count: 3"))
        server.load_model("safety")
        run_load(server.http_url, load)
        after = statistics(server)["safety"]
    assert busy_share(before, load.duration) > 0.8
    assert mean_queue(before) > 0.03
    assert mean_queue(after, before) < mean_queue(before) / 3


def test_a_failing_stage_fails_its_requests_in_both_ways(
    environment: TritonEnvironment, nothing_left: Path, tmp_path: Path
) -> None:
    repository = materialise(load_fault("backend-errors"), tmp_path / "repository")
    path = repository / "safety" / "config.pbtxt"
    text = path.read_text("utf-8").replace("count: 2", "count: 1")
    path.write_text(text)
    with TritonLauncher(environment, repository, stop_timeout=SOON) as server:
        assert failures_counted(server) == 0
        path.write_text(text.replace('"error" }', '"raise" }'))
        assert path.read_text("utf-8") != text
        server.load_model("safety")
        assert failures_counted(server) >= 4


def failures_counted(server: TritonLauncher) -> int:
    """Call until four requests failed, and return how many failures the stage has counted."""
    closed = LoadProfile(pattern=Pattern.CLOSED, concurrency=1, duration=60, max_tokens=2)
    stop = threading.Event()
    records = run_load(
        server.http_url, closed, stop=stop, progress=lambda state: stop.set() if state.errors >= 4 else None
    )
    failed = [record for record in records if not record.ok]
    assert len(failed) >= 4
    assert {record.code for record in failed} <= {400, 500}
    return int(statistics(server)["safety"]["inference_stats"]["fail"]["count"])


INERT = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils

TYPES = {"TYPE_STRING": np.object_, "TYPE_INT32": np.int32, "TYPE_FP32": np.float32}


class TritonPythonModel:
    def initialize(self, args):
        self.config = json.loads(args["model_config"])

    def execute(self, requests):
        return [pb_utils.InferenceResponse([self.output(field) for field in self.config["output"]]) for _ in requests]

    def output(self, field):
        shape = [1] * (self.config["max_batch_size"] > 0) + [max(1, int(size)) for size in field["dims"]]
        filling = b"x" if field["data_type"] == "TYPE_STRING" else 1
        return pb_utils.Tensor(field["name"], np.full(shape, filling, dtype=TYPES[field["data_type"]]))
"""


@pytest.mark.parametrize("form", ["engine", "llm-api"])
def test_a_real_server_accepts_the_ensembles_of_the_real_forms(
    environment: TritonEnvironment, nothing_left: Path, tmp_path: Path, form: str
) -> None:
    """The engines' models are replaced by inert ones: what is tried is how the ensemble's tensors fit together."""
    repository = write_form(form, tmp_path / "chat")
    for model in repository.iterdir():
        make_inert(model, form)
    body = {
        "inputs": [
            {"name": "text_input", "datatype": "BYTES", "shape": [1, 1], "data": ["hello"]},
            {"name": "max_tokens", "datatype": "INT32", "shape": [1, 1], "data": [4]},
        ]
    }
    with TritonLauncher(environment, repository, stop_timeout=SOON) as server:
        answer = urllib3.request("POST", f"{server.http_url}/v2/models/ensemble/infer", body=json.dumps(body))
    assert answer.json()["outputs"][0]["data"] == ["x"]


def write_form(form: str, into: Path) -> Path:
    script = reference_root() / "tensorrt-llm"
    code = (
        "import sys; from pathlib import Path; import build_engines as b; "
        "o = b.parse_arguments(['--form', sys.argv[1], '--repository', sys.argv[2]]); "
        "b.write_repository(o.form, o.repository, b.template_values(o))"
    )
    subprocess.run([sys.executable, "-c", code, form, into], cwd=script, check=True)
    return into


def make_inert(model: Path, form: str) -> None:
    config = model / "config.pbtxt"
    text = config.read_text("utf-8").replace("KIND_GPU", "KIND_CPU").replace('"tensorrtllm"', '"python"')
    text = re.sub(r"count: \d+", "count: 1", text)
    if (form, model.name) == ("llm-api", "tensorrt_llm"):
        text += "max_batch_size: 0\n"  # its model.yaml says so
    config.write_text(text)
    if model.name != "ensemble":
        (model / "1" / "model.py").write_text(INERT)
