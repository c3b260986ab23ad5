from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from diagnostics.errors import CollectError
from diagnostics.wire.gpu import parse_nvml
from diagnostics.wire.host import parse_host
from diagnostics.wire.records import BodyKind
from exporters.sources import host
from exporters.sources.host import find_server, is_this_machine, listening_ports, sample_host
from exporters.sources.nvml import NvmlSampler
from exporters.sources.nvml_device import QueryBudget
from exporters.sources.repository import repository_scrapes

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux")
KEYS = {
    "t",
    "cores",
    "server_cores",
    "cpu_jiffies",
    "clk_tck",
    "loadavg",
    "pressure_cpu",
    "pressure_io",
    "cgroup_pressure_io",
    "cgroup_cpu_stat",
    "cgroup_cpu_max",
    "meminfo",
    "server_pid",
    "server_processes",
    "server_threads",
}


@linux
def test_a_host_sample_has_the_captures_keys_and_reads_back():
    scrape = sample_host("triton:8002", os.getpid())
    assert scrape.kind is BodyKind.HOST
    assert scrape.server == "triton:8002"
    assert json.loads(scrape.body).keys() == KEYS
    sample = parse_host(scrape.body)
    assert sample.cores == os.cpu_count()
    assert 0 < sample.cpu_busy_seconds < sample.cpu_total_seconds
    assert sample.memory_available_bytes <= sample.memory_total_bytes


@linux
def test_threads_that_used_a_second_of_a_processor_are_noted_and_others_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr("exporters.sources.host.PROC", tmp_path)
    for tid, used, waited in ((7, 2_500_000_000, 40_000_000), (8, 900_000_000, 0)):
        task = tmp_path / "7" / "task" / str(tid)
        task.mkdir(parents=True)
        (task / "schedstat").write_text(f"{used} {waited} 12\n")
    threads = parse_host(sample_host("a", 7).body).threads
    assert [(one.tid, one.cpu_seconds, one.run_delay_seconds) for one in threads] == [(7, 2.5, 0.04)]


@linux
def test_the_process_tree_begins_with_the_server_and_holds_what_it_started():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        tree = parse_host(sample_host("a", os.getpid()).body).processes
        assert tree[0].pid == os.getpid()
        assert tree[0].rss_bytes > 2**20
        assert child.pid in {process.pid for process in tree}
        assert all(process.cpu_seconds >= 0 for process in tree)
        child.communicate(b"\n")


def test_without_a_server_process_there_is_no_host_sample():
    assert sample_host("a", None) is None
    assert sample_host("a", 2**22 + 1) is None


def test_a_process_name_with_brackets_and_blanks_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fields = ["S", "1", *["0"] * 9, "150", "50", *["0"] * 8, "3"]
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) (b c) {' '.join(fields)}")
    monkeypatch.setattr(host, "PROC", tmp_path)
    (process,) = parse_host(sample_host("a", 7).body).processes
    assert (process.command, process.ppid) == ("a) (b c", 1)
    assert process.cpu_seconds == 200 / os.sysconf("SC_CLK_TCK")


def test_what_the_kernel_does_not_give_is_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "7").mkdir()
    monkeypatch.setattr(host, "PROC", tmp_path)
    body = json.loads(sample_host("a", 7).body)
    assert body["pressure_cpu"] is None
    assert body["cgroup_cpu_stat"] is None


def test_a_quota_of_the_servers_cgroup_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    group = tmp_path / "cgroup" / "pod"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text("150000 100000\n")
    (group / "cpu.stat").write_text("usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 2000000\n")
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/pod\n")
    monkeypatch.setattr(host, "PROC", tmp_path)
    monkeypatch.setattr(host, "CGROUP", tmp_path / "cgroup")
    sample = parse_host(sample_host("a", 7).body)
    assert (sample.quota_cores, sample.throttled_seconds, sample.throttled_periods) == (1.5, 2.0, 4)


def test_threads_that_wait_for_a_disk_or_are_stopped_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fields = ["S", "1", *["0"] * 9, "150", "50", *["0"] * 8, "3"]
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (tritonserver) {' '.join(fields)}")
    for tid, state in enumerate("SDDTR", start=7):
        task = tmp_path / "7" / "task" / str(tid)
        task.mkdir(parents=True)
        (task / "stat").write_text(f"{tid} (a) D b) {state} 1 0\n")
    monkeypatch.setattr(host, "PROC", tmp_path)
    (process,) = parse_host(sample_host("a", 7).body).processes
    assert (process.thread_count, process.io_threads, process.stopped_threads) == (5, 2, 1)


def test_the_io_pressure_of_the_servers_cgroup_goes_before_that_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for folder, seconds in ((tmp_path / "pressure", 9), (tmp_path / "cgroup" / "pod", 2)):
        folder.mkdir(parents=True)
        name = "io" if folder.name == "pressure" else "io.pressure"
        (folder / name).write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={seconds}000000\nfull total=1\n")
    (tmp_path / "7").mkdir()
    monkeypatch.setattr(host, "PROC", tmp_path)
    monkeypatch.setattr(host, "CGROUP", tmp_path / "cgroup")
    assert parse_host(sample_host("a", 7).body).io_pressure_seconds == 9
    (tmp_path / "7" / "cgroup").write_text("0::/pod\n")
    assert parse_host(sample_host("a", 7).body).io_pressure_seconds == 2


def test_loopback_and_own_addresses_are_this_machine_and_others_are_not():
    assert is_this_machine("localhost")
    assert is_this_machine("127.0.0.1")
    assert is_this_machine("::1")
    assert not is_this_machine("192.0.2.1")
    assert not is_this_machine("triton.example")


@linux
def test_a_port_of_another_program_is_no_server():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert find_server("127.0.0.1", (port,)) is None
        assert port in listening_ports(os.getpid())


@linux
def test_the_server_is_found_by_the_port_it_listens_on(monkeypatch: pytest.MonkeyPatch):
    own_name = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
    monkeypatch.setattr(host, "_COMMAND", own_name)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert find_server("127.0.0.1", (1, port)) == os.getpid()
        assert find_server("192.0.2.1", (port,)) is None


class FakeNvml(SimpleNamespace):
    """A driver with one GPU, of whose queries `refused` ones fail."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_GPM_METRICS_GET_VERSION = 1

    class NVMLError(Exception):
        pass

    class NVMLError_NotFound(NVMLError):  # noqa: N801 - the library's name
        pass

    def __init__(self, *refused: str) -> None:
        super().__init__(refused=set(refused), freed=[], taken=0)

    def __getattribute__(self, name: str) -> object:
        if name.startswith("nvml") and name in object.__getattribute__(self, "refused"):
            return self._refuse
        return object.__getattribute__(self, name)

    def _refuse(self, *_: object) -> None:
        raise self.NVMLError

    nvmlInit = nvmlShutdown = staticmethod(lambda: None)  # noqa: N815
    nvmlSystemGetDriverVersion = staticmethod(lambda: b"580.1")  # noqa: N815
    nvmlDeviceGetCount = staticmethod(lambda: 1)  # noqa: N815
    nvmlDeviceGetHandleByIndex = staticmethod(lambda index: index)  # noqa: N815
    nvmlDeviceGetUUID = staticmethod(lambda _: "GPU-1")  # noqa: N815
    nvmlDeviceGetName = staticmethod(lambda _: "H100")  # noqa: N815
    nvmlDeviceGetUtilizationRates = staticmethod(lambda _: SimpleNamespace(gpu=96, memory=23))  # noqa: N815
    nvmlDeviceGetMemoryInfo = staticmethod(lambda _: SimpleNamespace(total=80, used=8))  # noqa: N815
    nvmlDeviceGetPowerUsage = staticmethod(lambda _: 261000)  # noqa: N815
    nvmlDeviceGetTotalEnergyConsumption = staticmethod(lambda _: 5000)  # noqa: N815
    nvmlDeviceGetEnforcedPowerLimit = staticmethod(lambda _: 700000)  # noqa: N815
    nvmlDeviceGetTemperature = staticmethod(lambda *_: 37)  # noqa: N815
    nvmlDeviceGetClockInfo = nvmlDeviceGetMaxClockInfo = staticmethod(lambda *_: 1980)  # noqa: N815
    nvmlDeviceGetCurrentClocksThrottleReasons = staticmethod(lambda _: 4)  # noqa: N815
    nvmlDeviceGetMigMode = staticmethod(lambda _: [0, 0])  # noqa: N815
    nvmlDeviceGetComputeRunningProcesses = staticmethod(  # noqa: N815
        lambda _: [SimpleNamespace(pid=5, usedGpuMemory=None)]
    )
    nvmlGpmQueryDeviceSupport = staticmethod(lambda _: SimpleNamespace(isSupportedDevice=1))  # noqa: N815

    def nvmlDeviceGetProcessUtilization(self, _: int, since: int) -> list[SimpleNamespace]:  # noqa: N802
        if self.taken:
            raise self.NVMLError_NotFound
        return [SimpleNamespace(pid=5, timeStamp=since + 1, smUtil=13, memUtil=3)]

    def nvmlGpmSampleAlloc(self) -> int:  # noqa: N802
        self.taken += 1
        return self.taken

    def nvmlGpmSampleGet(self, _: int, sample: int) -> int:  # noqa: N802
        return sample

    def nvmlGpmSampleFree(self, sample: int) -> None:  # noqa: N802
        self.freed.append(sample)

    def c_nvmlGpmMetricsGet_t(self) -> SimpleNamespace:  # noqa: N802
        metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(20)]
        return SimpleNamespace(metrics=metrics)

    def nvmlGpmMetricsGet(self, query: SimpleNamespace) -> SimpleNamespace:  # noqa: N802
        for metric in query.metrics[: query.numMetrics]:
            metric.value, metric.nvmlReturn = 10.0 * metric.metricId, int(metric.metricId == 3)
        return query


def sampler_of(nvml: FakeNvml, timeout: float = 1.0) -> NvmlSampler:
    """Return a sampler whose queries cost nothing, so that each is made every time."""
    return NvmlSampler(nvml, timeout, lambda: QueryBudget(used=lambda: 0.0))


def test_a_gpu_sample_reads_back_with_gpm_from_the_second_one_on():
    nvml = FakeNvml()
    sampler = sampler_of(nvml)
    (first,) = parse_nvml(sampler.sample().body).gpus
    (second,) = parse_nvml(sampler.sample().body).gpus
    assert (first.utilization, first.power_watts, first.mig) == (0.96, 261.0, False)
    assert first.process_sm == {5: 0.13}
    assert first.process_memory == {5: None}
    assert first.graphics_active is None
    assert (second.graphics_active, second.sm_active, second.sm_occupancy) == (0.1, 0.2, None)
    assert second.process_sm == {}


@pytest.mark.parametrize("decoded", [False, True], ids=["bytes", "decoded by pynvml"])
def test_a_card_whose_name_is_no_text_is_sampled_without_it(decoded: bool):
    def named(*_: object) -> bytes | str:
        return b"H100\xff\x1b[2J".decode() if decoded else b"H100\xff\x1b[2J"

    nvml = FakeNvml()
    nvml.nvmlDeviceGetName = nvml.nvmlSystemGetDriverVersion = named
    (card,) = parse_nvml(sampler_of(nvml).sample().body).gpus
    assert (card.utilization, card.uuid) == (0.96, "GPU-1")
    assert card.withheld.get("name") == ("is no text" if decoded else None)


class Divided(FakeNvml):
    """A GPU with two MIG instances in places 0 and 3, of GPU instance ids 7 and 9."""

    PLACES = {0: 7, 3: 9}  # noqa: RUF012 - read only
    nvmlDeviceGetMigMode = staticmethod(lambda _: [1, 1])  # noqa: N815
    nvmlDeviceGetMaxMigDeviceCount = staticmethod(lambda _: 7)  # noqa: N815
    nvmlDeviceGetComputeInstanceId = staticmethod(lambda _: 0)  # noqa: N815
    nvmlDeviceGetUUID = staticmethod(lambda handle: f"MIG-{handle}" if handle else "GPU-1")  # noqa: N815
    nvmlDeviceGetGpuInstanceId = staticmethod(lambda handle: handle)  # noqa: N815
    nvmlDeviceGetComputeRunningProcesses = staticmethod(  # noqa: N815
        lambda handle: [SimpleNamespace(pid=10 * handle, usedGpuMemory=4)]
    )

    def nvmlDeviceGetMigDeviceHandleByIndex(self, _: int, place: int) -> int:  # noqa: N802
        if place not in self.PLACES:
            raise self.NVMLError_NotFound
        return self.PLACES[place]

    def nvmlDeviceGetUtilizationRates(self, _: int) -> None:  # noqa: N802
        raise self.NVMLError("Not Supported")

    def nvmlGpmMigSampleGet(self, _: int, instance: int, sample: int) -> int:  # noqa: N802
        assert instance in self.PLACES.values()
        return sample


def test_each_instance_of_a_divided_card_has_memory_processes_and_activity_of_its_own():
    nvml = Divided()
    sampler = sampler_of(nvml)
    sampler.sample()
    body = sampler.sample().body
    (card,) = parse_nvml(body).gpus
    assert (card.uuid, card.mig, card.utilization, card.sm_active, card.process_sm) == ("GPU-1", True, None, None, None)
    assert [(part.uuid, part.instance) for part in card.parts] == [("MIG-7", 7), ("MIG-9", 9)]
    assert [(part.memory_total_bytes, part.process_memory, part.sm_active) for part in card.parts] == [
        (80, {70: 4}, 0.2),
        (80, {90: 4}, 0.2),
    ]
    assert "MIG" in card.withheld["gpm"]
    sampler.close()
    assert sorted(nvml.freed) == [1, 2, 3, 4]


def test_an_instance_that_is_gone_is_given_back_and_the_others_go_on():
    nvml = Divided()
    sampler = sampler_of(nvml)
    sampler.sample()
    nvml.PLACES = {3: 9}
    sampler.sample()
    (card,) = parse_nvml(sampler.sample().body).gpus
    assert [(part.uuid, part.sm_active) for part in card.parts] == [("MIG-9", 0.2)]


def test_every_gpm_sample_is_given_back():
    nvml = FakeNvml()
    sampler = sampler_of(nvml)
    for _ in range(3):
        sampler.sample()
    sampler.close()
    assert sorted(nvml.freed) == [1, 2, 3]


@pytest.mark.parametrize(
    ("refused", "attribute"),
    [
        ("nvmlDeviceGetUtilizationRates", "utilization"),
        ("nvmlDeviceGetMemoryInfo", "memory_total_bytes"),
        ("nvmlDeviceGetPowerUsage", "power_watts"),
        ("nvmlDeviceGetMigMode", "mig"),
        ("nvmlGpmQueryDeviceSupport", "sm_active"),
        ("nvmlGpmMetricsGet", "sm_active"),
    ],
)
def test_a_query_that_is_refused_leaves_the_others(refused: str, attribute: str):
    sampler = sampler_of(FakeNvml(refused))
    sampler.sample()
    (gpu,) = parse_nvml(sampler.sample().body).gpus
    assert getattr(gpu, attribute) is None
    assert gpu.temperature_celsius == 37


class Hanging:
    """A card that answers only once it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def sample(self) -> dict[str, object]:
        self.go.wait(20)
        return {"index": 1, "uuid": "GPU-hung"}

    def close(self) -> None: ...


def test_a_card_that_hangs_holds_back_no_other_and_returns_when_it_answers():
    sampler = sampler_of(FakeNvml(), timeout=0.05)
    hanging = Hanging()
    sampler._devices = {1: hanging, **sampler._devices}
    first, second = (json.loads(sampler.sample().body)["gpus"] for _ in range(2))
    assert [gpu["index"] for gpu in first] == [gpu["index"] for gpu in second] == [1, 0]
    assert first[1]["uuid"] == second[1]["uuid"] == "GPU-1"
    assert "no answer within" in first[0]["errors"]["device"]
    hanging.go.set()
    time.sleep(0.1)
    assert json.loads(sampler.sample().body)["gpus"][0]["uuid"] == "GPU-hung"


def test_a_refused_query_says_why_and_is_not_requested_again_when_it_is_refused_for_good():
    requested = []
    nvml = FakeNvml()

    def refuse(*_: object) -> None:
        requested.append(1)
        raise nvml.NVMLError("Not Supported")

    nvml.nvmlDeviceGetPowerUsage = refuse
    sampler = sampler_of(nvml)
    bodies = [json.loads(sampler.sample().body)["gpus"][0] for _ in range(3)]
    assert [body["errors"]["power_mw"] for body in bodies] == ["Not Supported"] * 3
    assert len(requested) == 1


def test_a_dear_query_rests_in_proportion_to_what_it_took():
    time_now, used = [0.0], [0.0]
    budget = QueryBudget(now=lambda: time_now[0], used=lambda: used[0])

    def dear() -> str:
        used[0] += 0.002
        return "answer"

    answers = []
    for second in range(200):
        time_now[0] = float(second)
        answers.append(budget.spend("process_utilization", dear))
    assert answers.count("answer") == 200 / 8  # 2 ms at 0.025 % of a core


def test_errors_that_the_driver_reports_are_in_the_next_sample():
    nvml = FakeNvml()
    queued = [79]

    class NVMLError_Timeout(nvml.NVMLError):  # noqa: N801 - the library's name
        pass

    def wait(*_: object) -> SimpleNamespace:
        if not queued:
            raise NVMLError_Timeout
        return SimpleNamespace(eventData=queued.pop())

    nvml.nvmlEventSetCreate = lambda: 1
    nvml.nvmlEventSetFree = nvml.nvmlDeviceRegisterEvents = lambda *_: 1
    nvml.nvmlEventSetWait_v2 = wait
    sampler = sampler_of(nvml)
    assert [json.loads(sampler.sample().body)["gpus"][0]["xids"] for _ in range(2)] == [[79], []]


def test_without_a_driver_there_is_no_sampler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml("nvmlInit"))
    assert NvmlSampler.open() is None


def test_without_the_gpu_extra_there_is_no_sampler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert NvmlSampler.open() is None


def test_a_repositorys_configurations_and_versions_are_kept(tmp_path: Path):
    model = tmp_path / "safety"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text("max_batch_size: 1  # comment\n")
    (model / "1" / "model.plan").write_bytes(bytes(100))
    scrapes = list(repository_scrapes(tmp_path, ["a", "b"]))
    assert {scrape.server for scrape in scrapes} == {"a", "b"}
    bodies = {scrape.name: scrape.body for scrape in scrapes}
    assert bodies == {"safety/config.pbtxt": b"max_batch_size: 1  # comment\n", "safety/1/.keep": b""}


def test_a_folder_without_models_is_no_repository(tmp_path: Path):
    with pytest.raises(CollectError, match="not a model repository"):
        list(repository_scrapes(tmp_path, ["a"]))
