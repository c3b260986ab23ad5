"""The models that compute on a card, with a stand-in for it: equal settings are equal work, on the instance's card."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

from tests.benchmark.deployment import write
from tests.prediction.cards import card_points

POINTS = {(point.group, point.name): point for point in card_points()}


@dataclass
class Card:
    """Counts what is multiplied on it."""

    device: int = -1
    products: int = 0
    sizes: set[int] = field(default_factory=set)

    def torch(self) -> ModuleType:
        """Return the part of torch that the models use."""
        made = ModuleType("torch")
        cuda = ModuleType("torch.cuda")
        cuda.__dict__.update(set_device=self._set, synchronize=lambda: None)
        made.__dict__.update(float16=None, randn=self._matrix, matmul=self._multiply, cuda=cuda)
        return made

    def _set(self, device: int) -> None:
        self.device = device

    def _matrix(self, shape: tuple[int, int], **_: object) -> int:
        self.sizes.add(shape[0])
        return shape[0]

    def _multiply(self, *_: int) -> None:
        self.products += 1


@dataclass
class Request:
    """One row of four numbers, and its answer."""

    answers: list[Any] = field(default_factory=list)

    def inputs(self) -> list[Any]:
        return [self]

    def as_numpy(self) -> np.ndarray[Any, Any]:
        return np.ones((1, 4), dtype=np.float32)

    def get_response_sender(self) -> Request:
        return self

    def send(self, answer: Any, **_: int) -> None:
        self.answers.append(answer)


class Tensor:
    """A named array."""

    def __init__(self, name: str, data: Any) -> None:
        self.name, self.data = name, data

    from_dlpack = classmethod(lambda cls, name, data: cls(name, data))


def backend() -> ModuleType:
    """Return the part of Triton's module that the models use."""
    made = ModuleType("triton_python_backend_utils")

    class Response:
        def __init__(self, output_tensors: list[Tensor] | None = None, error: object = None) -> None:
            self.output_tensors, self.error = output_tensors, error

    class Family:
        GAUGE = COUNTER = 0

        def __init__(self, **_: object) -> None: ...

        def Metric(self, **_: object) -> Family:  # noqa: N802
            return self

        def set(self, _: float) -> None: ...

        def increment(self, _: float) -> None: ...

        def value(self) -> float:
            return 0.0

    made.__dict__.update(
        Tensor=Tensor,
        InferenceResponse=Response,
        MetricFamily=Family,
        TritonError=str,
        TritonModelException=RuntimeError,
        TRITONSERVER_RESPONSE_COMPLETE_FINAL=1,
        get_input_tensor_by_name=lambda request, _: request,
    )
    return made


@contextmanager
def loaded(monkeypatch: pytest.MonkeyPatch, repository: Path, model: str, card: Card, device: int = 0) -> Iterator[Any]:
    """Load a model of a repository as Triton does, on an instance of a card."""
    folder = repository / model / "1"
    config = text_format.Parse((repository / model / "config.pbtxt").read_text("utf-8"), model_config_pb2.ModelConfig())
    parameters = json_format.MessageToDict(config, preserving_proto_field_name=True)["parameters"]
    before = set(sys.modules)
    monkeypatch.setitem(sys.modules, "torch", card.torch())
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", backend())
    monkeypatch.syspath_prepend(str(folder))
    names = {path.stem for path in folder.glob("*.py")}
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    made = importlib.import_module("model").TritonPythonModel()
    args = {"model_config": json.dumps({"parameters": parameters}), "model_name": model, "model_version": "1"}
    made.initialize(
        {**args, "model_instance_name": f"{model}_0", "model_instance_kind": "GPU", "model_instance_device_id": device}
    )
    try:
        yield made
    finally:
        if hasattr(made, "finalize"):
            made.finalize()
        for name in names & (set(sys.modules) - before):
            del sys.modules[name]


def wait_for(true: Callable[[], object]) -> None:
    end = time.monotonic() + 10.0
    while not true() and time.monotonic() < end:
        time.sleep(0.002)


def test_an_execution_multiplies_as_often_as_is_stated_on_its_instances_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = POINTS["gpu-cards", "one"].deployment.changed("safety", jitter=0.0)
    card = Card()
    with loaded(monkeypatch, write(deployment, tmp_path), "safety", card, device=1) as model:
        before = card.products
        responses = model.execute([Request()])

    assert card.products - before == round(7.0 / 0.030)
    assert (card.device, card.sizes) == (1, {2048})
    assert len(responses) == 1


def test_an_engines_iterations_multiply_as_often_as_is_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = POINTS["gpu-engine", "eight"].deployment
    assert deployment.engine is not None
    deployment = replace(deployment, engine=replace(deployment.engine, decode_ms=3.0))
    card, request = Card(), Request()
    with loaded(monkeypatch, write(deployment, tmp_path), "tensorrt_llm", card) as model:
        before = card.products
        model.execute([request])
        wait_for(lambda: request.answers)
        tokens = model.batcher.iterations

    # The prompt, 5 ms and 0.05 ms a token of 48, and then a token an iteration, 3 ms and 0.1 ms a request.
    assert card.products - before == round(7.4 / 0.030) + (tokens - 1) * round(3.1 / 0.030)
    assert request.answers[0].error is None
