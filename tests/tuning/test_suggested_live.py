"""A real Triton loads what the product suggests, and says of itself that the change is there.

One model of every shape, each in a folder of its own on one server. The server has the Python backend and no GPU:
models of other backends and of GPUs become Python models on the processor, and what else their configuration says
stays, as Triton checks it for every backend. That the server takes a count on a GPU is not tried here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3

from diagnostics.demo.environment import find_environment
from diagnostics.demo.server import TritonLauncher
from diagnostics.tuning.changes import Setting, WarmupChange
from tests.tuning.suggested import Suggested, proto, suggested

pytestmark = pytest.mark.live

LOADS_AT_ONCE = 4
INERT = Path(__file__).with_name("inert_model.py")
TENSORS = {
    "input": 'input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]\n',
    "output": 'output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]\n',
}
OTHER_BACKEND = re.compile(r'^(backend|platform|default_model_filename|name): *"[^"]*"', re.MULTILINE)
GPUS = re.compile(r"\bgpus: *(\[[^\]]*\]|\d+)")


def of_every_shape() -> list[Suggested]:
    """Return of each shape the change with the fewest instances."""
    found: dict[object, Suggested] = {}
    for one in suggested():
        if one.patch is not None:
            held = found.get(one.shape)
            if held is None or instances(one) < instances(held):
                found[one.shape] = one
    return list(found.values())


def instances(one: Suggested) -> int:
    return sum(group.count for group in proto(one.before).instance_group)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonLauncher]:
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    repository = tmp_path_factory.mktemp("repository")
    with TritonLauncher(environment, repository, stop_timeout=0.0) as running:
        yield running


def test_triton_loads_a_suggestion_of_every_shape_and_reports_the_change(
    server: TritonLauncher, tmp_path: Path
) -> None:
    chosen = {f"model-{number}": one for number, one in enumerate(of_every_shape())}
    for name, one in chosen.items():
        write(server.repository / name, portable(one.after(tmp_path / name), name))
    with ThreadPoolExecutor(LOADS_AT_ONCE) as pool:
        answers = list(pool.map(lambda name: loaded(server.http_url, name), chosen))
    for (name, one), answer in zip(chosen.items(), answers, strict=True):
        assert not answer, (one.origin, answer, (server.repository / name / "config.pbtxt").read_text("utf-8"))
        reported = urllib3.request("GET", f"{server.http_url}/v2/models/{name}/config").json()
        for setting in one.change.settings:
            assert in_effect(reported, setting), (one.origin, setting, reported)


def loaded(url: str, name: str) -> str:
    """Load a model and return why the server refuses it; empty when it does not."""
    return urllib3.request("POST", f"{url}/v2/repository/models/{name}/load", timeout=60.0).data.decode()


def portable(text: str, name: str) -> str:
    """Return the text as one that a server with nothing but the Python backend reads."""
    text = re.sub(r"\$\{[^}]*\}", "7", text)
    text = GPUS.sub("", OTHER_BACKEND.sub("", text).replace("KIND_GPU", "KIND_CPU"))
    missing = "".join(block for field, block in TENSORS.items() if not getattr(proto(text), field))
    return f'name: "{name}"\nbackend: "python"\n{text}\n{missing}'


def write(folder: Path, text: str) -> None:
    for version in "1", "2", *map(str, proto(text).version_policy.specific.versions):
        (folder / version).mkdir(parents=True, exist_ok=True)
        (folder / version / "model.py").write_text(INERT.read_text("utf-8"))
    (folder / "config.pbtxt").write_text(text)


def in_effect(reported: dict[str, Any], setting: Setting) -> bool:
    """Say whether the configuration that a server reports holds a setting."""
    head, *names = setting.path.split(".")
    value = setting.value
    match head:
        case "instance_group":
            return all(group["passive"] or same(group.get(names[0]), value) for group in reported[head])
        case "model_warmup":
            assert isinstance(value, WarmupChange)
            return {max(sample["batch_size"], 1) for sample in reported[head]} >= set(value.batch_sizes)
        case "version_policy":
            kind, _, numbers = str(value).partition(":")
            key = {"latest": "num_versions", "specific": "versions"}.get(kind)
            held = reported[head][kind].get(key)
            return key is None or str(held).replace(" ", "").strip("[]'").replace("'", "") == numbers
        case "parameters":
            key = ".".join(names)
            return (reported[head][key]["string_value"] if key in reported[head] else None) == value
    held: Any = reported.get(head)
    for name in names:
        held = held.get(name) if held else None
    return same(held, value)


def same(held: object, value: object) -> bool:
    """Compare a field with a value: large numbers are text in JSON, and what is not there is not set."""
    if value is None or value == 0:
        return not held or held == "0" or held == {"default_priority_level": "0"}
    if value is True and isinstance(held, dict):
        return True
    return held == (list(value) if isinstance(value, tuple) else value) or held == str(value)
