"""A real Triton whose settings are changed while `diag serve` reads it: each change is an event, and ends or begins
what it mends or breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from diagnostics.demo.environment import find_environment
from diagnostics.demo.faults import load_fault
from diagnostics.demo.server import TritonLauncher
from diagnostics.tuning.changes import KNOWN_PATHS, is_build_option
from tests.collect.fake_triton import free_ports
from tests.soak.running import Serving, serving, under_load, until

pytestmark = [pytest.mark.live, pytest.mark.alone]

INTERVAL = 1.0
INERT = Path(__file__).parents[1] / "tuning" / "inert_model.py"
TENSORS = """
backend: "python"
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""
BATCHER = "dynamic_batching"
POLICY = f"{BATCHER}.default_queue_policy"


class Model(NamedTuple):
    """What a model's file holds besides before and after, and by the path that a patch changes what is shown."""

    before: str
    after: str
    shown: Mapping[str, str]


# Loads take a second or two each: what can change together is in one model.
MODELS = {
    "batcher": Model(
        before="""max_batch_size: 8
            parameters { key: "KEY" value { string_value: "1" } }""",
        after="""max_batch_size: 16
            dynamic_batching { }
            parameters { key: "KEY" value { string_value: "2" } }
            version_policy { all { } }""",
        shown={
            BATCHER: "dynamic_batching off → on",
            "max_batch_size": "max_batch_size 8 → 16",
            "parameters.KEY": "parameters.KEY 1 → 2",
            "version_policy": "version_policy latest:1 → all",
        },
    ),
    "instances": Model(
        before="instance_group [ { count: 1 kind: KIND_CPU } ]",
        after="instance_group [ { count: 2 kind: KIND_CPU } ]",
        shown={"instance_group.count": "count 1 → 2"},
    ),
    "policies": Model(
        before="""max_batch_size: 8
            dynamic_batching {
              max_queue_delay_microseconds: 500
              default_queue_policy { default_timeout_microseconds: 100000 max_queue_size: 64 }
            }
            instance_group [ { count: 1 kind: KIND_CPU } ]""",
        after="""max_batch_size: 8
            dynamic_batching {
              max_queue_delay_microseconds: 2000
              preferred_batch_size: [ 4, 8 ]
              default_queue_policy {
                default_timeout_microseconds: 200000 max_queue_size: 8
                allow_timeout_override: true timeout_action: DELAY
              }
            }
            instance_group [ {
              count: 1 kind: KIND_CPU
              rate_limiter { resources [ { name: "R1" count: 4 } ] priority: 2 }
            } ]""",
        shown={
            f"{POLICY}.allow_timeout_override": "dynamic_batching.allow_timeout_override off → on",
            f"{POLICY}.default_timeout_microseconds": "dynamic_batching.default_timeout 100 ms → 200 ms",
            f"{BATCHER}.max_queue_delay_microseconds": "dynamic_batching.max_queue_delay 500 µs → 2 ms",
            f"{POLICY}.max_queue_size": "dynamic_batching.max_queue_size 64 → 8",
            # Triton prefers the largest batch where none is preferred.
            f"{BATCHER}.preferred_batch_size": "dynamic_batching.preferred_batch_size 8 → 4, 8",
            f"{POLICY}.timeout_action": "dynamic_batching.timeout_action REJECT → DELAY",
            "instance_group.rate_limiter": "rate_limiter — → R1 4, priority 2",
        },
    ),
    "caching": Model(
        before="max_batch_size: 8 dynamic_batching { }",
        after="""max_batch_size: 8
            dynamic_batching { preserve_ordering: true default_queue_policy { max_queue_size: 64 } }
            response_cache { enable: true }
            model_warmup [ {
              name: "w" batch_size: 8
              inputs { key: "IN" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } }
            } ]""",
        shown={
            POLICY: "dynamic_batching.max_queue_size 0 → 64",
            f"{BATCHER}.preserve_ordering": "dynamic_batching.preserve_ordering off → on",
            "model_warmup": "model_warmup — → batch 8",
            "response_cache.enable": "response_cache off → on",
        },
    ),
}


def test_each_setting_that_a_file_can_hold_is_changed() -> None:
    assert {path for one in MODELS.values() for path in one.shown} == {
        path for path in KNOWN_PATHS if not is_build_option(path)
    }


@pytest.fixture(scope="module")
def server() -> Iterator[TritonLauncher]:
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    caches = next(environment.python_backend.parents[1].glob("caches"))
    cache = (f"--cache-directory={caches}", "--cache-config=local,size=1048576")
    with TritonLauncher(environment, load_fault("single-instance"), args=cache, stop_timeout=0.0) as running:
        yield running


@pytest.fixture
def service(tmp_path: Path, server: TritonLauncher) -> Iterator[Serving]:
    port = free_ports(1)
    file = tmp_path / "diag.toml"
    file.write_text(
        f'[web]\nlisten_address = "127.0.0.1:{port}"\n[collect]\ninterval = "{INTERVAL:g}s"\n'
        f'[history]\ndirectory = "{tmp_path}/data"\n[[server]]\nurl = "{server.http_url}"\n'
    )
    with serving(file, port) as one:
        yield one


def incidents(service: Serving) -> list[dict[str, Any]]:
    of_safety = [one for one in service.json("/api/v1/incidents") if one["subject"]["model"] == "safety"]
    return sorted(of_safety, key=lambda one: one["opened"])


def reported(service: Serving) -> list[str]:
    """Return the changes of settings that the newest verdict tells."""
    return [line for one in service.json("/api/v1/state")["deployments"] for line in one["changes"]]


def reported_of_safety(service: Serving) -> list[str]:
    return re.findall(r"settings of safety changed [\d:]+: (.*)", "\n".join(reported(service)))


def set_count(server: TritonLauncher, count: int) -> None:
    path = server.repository / "safety" / "config.pbtxt"
    path.write_text(re.sub(r"count: \d+", f"count: {count}", path.read_text("utf-8")))
    server.load_model("safety")


def test_a_second_instance_ends_the_incident_and_one_less_brings_it_back(
    server: TritonLauncher, service: Serving
) -> None:
    with under_load(server.http_url, replace(load_fault("single-instance").load, duration=120.0)):
        until(lambda: incidents(service), 25, "the incident")
        (first,) = incidents(service)
        assert first["check"] == "single-instance-serialization"

        set_count(server, 2)
        # A hundred requests show it, in three seconds; two rounds prove it. By absence alone it would take minutes.
        until(lambda: incidents(service)[0]["closed"], 20, "the end of the incident")
        (first,) = incidents(service)
        assert first["ending"] == "changed"
        assert reported_of_safety(service) == ["count 1 → 2"]

        set_count(server, 1)
        until(lambda: len(incidents(service)) > 1, 25, "the incident again")
        again = incidents(service)[1]
        assert again["check"] == "single-instance-serialization"
        assert reported_of_safety(service) == ["count 1 → 2", "count 2 → 1"]


def load_all(server: TritonLauncher, *, changed: bool) -> None:
    """Give each model its settings from before or after the change, and load it."""
    for name, model in MODELS.items():
        folder = server.repository / name
        for version in "1", "2":
            (folder / version).mkdir(parents=True, exist_ok=True)
            (folder / version / "model.py").write_text(INERT.read_text("utf-8"))
        (folder / "config.pbtxt").write_text(f'name: "{name}"\n{TENSORS}{model.after if changed else model.before}\n')
    with ThreadPoolExecutor(len(MODELS)) as pool:
        list(pool.map(server.load_model, MODELS))


def turned(shown: str) -> str:
    """Return a change as it is shown in the other direction."""
    name, before, after = re.fullmatch(r"(\S+) (.*) → (.*)", shown).groups()  # type: ignore[union-attr]
    return f"{name} {after} → {before}"


def untimed(lines: list[str]) -> list[str]:
    return sorted(re.sub(r" changed [\d:]+:", " changed:", line) for line in lines)


def test_each_setting_that_a_patch_can_change_is_reported_in_both_directions(
    server: TritonLauncher, service: Serving
) -> None:
    there = [f"settings of {name} changed: {', '.join(one.shown.values())}" for name, one in MODELS.items()]
    back = [f"settings of {name} changed: {', '.join(map(turned, one.shown.values()))}" for name, one in MODELS.items()]
    load_all(server, changed=False)
    read = service.json("/api/v1/targets")[0]["last_round"]
    until(lambda: service.json("/api/v1/targets")[0]["last_round"] > read + INTERVAL, 15, "a round")
    assert reported(service) == []
    load_all(server, changed=True)
    until(lambda: len(reported(service)) >= len(there), 15, "the changes")
    assert untimed(reported(service)) == sorted(there)
    load_all(server, changed=False)
    until(lambda: len(reported(service)) >= len(there) + len(back), 15, "the changes back")
    assert untimed(reported(service)) == sorted(there + back)
    (deployment,) = service.json("/api/v1/state")["deployments"]
    past = service.json(f"/api/v1/explain?deployment={deployment['name']}")["changes"]
    assert untimed([one["text"] for one in past]) == sorted(there + back)
