from __future__ import annotations

import json

import pytest

from diagnostics.wire.host import HostProcess, HostSample, parse_host

SAMPLE = {
    "t": 1795818224.5,
    "cores": 2,
    "cpu_jiffies": {
        "user": 1000,
        "nice": 10,
        "system": 500,
        "idle": 8000,
        "iowait": 100,
        "irq": 0,
        "softirq": 20,
        "steal": 70,
        "guest": 300,
    },
    "clk_tck": 100,
    "loadavg": ["2.68", "1.37", "0.97"],
    "pressure_cpu": "some avg10=43.90 avg60=16.03 avg300=9.52 total=348616556\nfull avg10=0.00 total=5\n",
    "cgroup_cpu_stat": "usage_usec 307009951\nnr_periods 40\nnr_throttled 10\nthrottled_usec 2500000\n",
    "cgroup_cpu_max": "200000 100000",
    "meminfo": {"MemTotal": "       24684096 kB", "MemAvailable": "   23762268 kB"},
    "server_pid": 3222,
    "server_processes": [
        {"pid": 3374, "ppid": 3222, "comm": "triton_python_b", "cpu_seconds": 0.25, "rss_bytes": 41586688}
    ],
}


def test_a_sample_is_given_in_seconds_bytes_and_cores():
    assert parse_host(json.dumps(SAMPLE).encode()) == HostSample(
        at=1795818224.5,
        cores=2,
        cpu_busy_seconds=pytest.approx(16.0),
        cpu_total_seconds=pytest.approx(97.0),
        cpu_steal_seconds=0.7,
        pressure_seconds=pytest.approx(348.616556),
        throttled_seconds=2.5,
        throttled_periods=10,
        periods=40,
        quota_cores=2.0,
        cgroup_seconds=pytest.approx(307.009951),
        memory_total_bytes=24684096 * 1024,
        memory_available_bytes=23762268 * 1024,
        server_pid=3222,
        processes=(HostProcess(pid=3374, ppid=3222, command="triton_python_b", cpu_seconds=0.25, rss_bytes=41586688),),
    )


def test_a_machine_that_gives_nothing_yields_none_everywhere():
    assert parse_host(b'{"t": 5, "cgroup_cpu_stat": null, "pressure_cpu": null}') == HostSample(at=5.0)


@pytest.mark.parametrize(("count", "read"), [(3, 3), (0, 0), (-1, None), (1e300, None), ("many", None), (None, None)])
def test_a_number_of_threads_is_one_that_a_kernel_can_have(count, read):
    process = {"pid": 7, "thread_count": count, "io_threads": count, "stopped_threads": count}
    (found,) = parse_host(json.dumps({"server_processes": [process]}).encode()).processes
    assert (found.thread_count, found.io_threads, found.stopped_threads) == (read, read, read)


@pytest.mark.parametrize(("text", "cores"), [("max 100000", None), ("50000 100000", 0.5), ("", None), ("1 0", None)])
def test_a_quota_is_in_cores_and_no_limit_is_none(text, cores):
    assert parse_host(json.dumps({"cgroup_cpu_max": text}).encode()).quota_cores == cores
