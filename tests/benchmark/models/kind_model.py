"""A model of a drawn kind: takes its time, calls other models, and misbehaves when a file says so.

Tensors leave through DLPack where numpy is 2, whose own tensors this backend takes for empty; numpy 1 frees what
left that way again and again, without end (1.26.4).
"""

import fcntl
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import numpy as np
import triton_python_backend_utils as pb_utils


def tensor(name, values):
    array = np.array(values, dtype=np.float32, copy=True)
    return pb_utils.Tensor(name, array) if np.__version__ < "2" else pb_utils.Tensor.from_dlpack(name, array)


class TritonPythonModel:
    """Its settings are `parameters` that begin with `standin_`; times in milliseconds.

    standin_base_ms, standin_per_item_ms, standin_jitter: one execution takes base + per item × items.
    standin_mode: `sleep`, or `work`, which is processor time of its own, however long that takes.
    standin_first_ms: what the first execution of an instance costs on top; standin_load_ms: what loading takes.
    standin_broken: why loading fails.
    standin_calls: models called, one group after another (`;`), those of a group at once (`,`).
    standin_traced: 1 hands the request's trace to the models called.
    standin_locked: for this last part of its time, one instance executes at a time; 1 is all of it.
    standin_lanes: above 0 it answers from so many threads of its own; standin_parts: with so many responses.
    standin_version_ms: base times of single versions, as `2=30;3=12`.
    standin_out_values: numbers in a row of its output; 0 for those of its input.
    standin_control: a file that says how it misbehaves: {"hang": [instances], "error": every n-th, "slow": factor}.
    """

    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.parameters = config.get("parameters", {})
        self.lane = int(args["model_instance_name"].rsplit("_", 1)[1])
        self.random = Random(args["model_instance_name"])
        self.base = self._number("base_ms") / 1e3
        for part in filter(None, self._text("version_ms").split(";")):
            version, base = part.split("=")
            if version == args["model_version"]:
                self.base = float(base) / 1e3
        self.per_item, self.jitter = self._number("per_item_ms") / 1e3, self._number("jitter")
        self.mode, self.first = self._text("mode", "sleep"), self._number("first_ms") / 1e3
        self.calls = [group.split(",") for group in filter(None, self._text("calls").split(";"))]
        self.traced, self.parts = self._number("traced"), int(self._number("parts"))
        self.out_values, self.control = int(self._number("out_values")), self._text("control")
        self.read_at, self.misbehaves, self.seen = 0.0, {}, 0
        self.locked = self._number("locked")
        self.lock = Path(f"{self.control}.lock").open("w") if self.locked else None  # noqa: SIM115
        lanes = int(self._number("lanes"))
        self.pool = ThreadPoolExecutor(max_workers=lanes) if lanes else None
        time.sleep(self._number("load_ms") / 1e3)
        if reason := self._text("broken"):
            raise pb_utils.TritonModelException(reason)

    def execute(self, requests):
        self._obey()
        if self.lane in self.misbehaves.get("hang", []):
            threading.Event().wait()
        if self.pool is not None:
            for request in requests:
                self.pool.submit(self._answer_alone, request.get_response_sender(), self._rows(request))
            return None
        started = time.monotonic()
        rows = [self._rows(request) for request in requests]
        seconds = self._seconds(sum(len(each) for each in rows))
        if self.lock is not None:
            self._spend(started + seconds * (1 - self.locked))
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            started, seconds = time.monotonic(), seconds * self.locked
        self._spend(started + seconds)
        if self.lock is not None:
            fcntl.flock(self.lock, fcntl.LOCK_UN)
        if self.parts:
            for request, each in zip(requests, rows, strict=True):
                self._send(request.get_response_sender(), each)
            return None
        return [self._respond(request, each) for request, each in zip(requests, rows, strict=True)]

    def _respond(self, request, rows):
        self.seen += 1
        every = self.misbehaves.get("error", 0)
        if every and self.seen % every == 0:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("the tokenizer returned nothing"))
        for group in self.calls:
            answers = self._call(group, rows, request.trace() if self.traced else None)
            for answer in answers:
                if answer.has_error():
                    return pb_utils.InferenceResponse(error=answer.error())
            rows = pb_utils.get_output_tensor_by_name(answers[0], "OUT").as_numpy()
        return pb_utils.InferenceResponse(output_tensors=[self._output(rows)])

    def _call(self, group, rows, trace):
        def one(model):
            further = {"trace": trace} if trace is not None else {}
            inner = pb_utils.InferenceRequest(
                model_name=model, requested_output_names=["OUT"], inputs=[tensor("IN", rows)], **further
            )
            return inner.exec()

        if len(group) == 1:
            return [one(group[0])]
        with ThreadPoolExecutor(max_workers=len(group)) as pool:
            return list(pool.map(one, group))

    def _answer_alone(self, sender, rows):
        self._spend(time.monotonic() + self._seconds(len(rows)))
        self._send(sender, rows)

    def _send(self, sender, rows):
        for _ in range(self.parts or 1):
            sender.send(pb_utils.InferenceResponse(output_tensors=[self._output(rows)]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _output(self, rows):
        values = np.zeros((len(rows), self.out_values)) if self.out_values else rows
        return tensor("OUT", values)

    def _rows(self, request):
        return pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()

    def _seconds(self, items):
        first, self.first = self.first, 0.0
        spread = 1 + self.jitter * self.random.uniform(-1, 1)
        return (self.base + self.per_item * items) * spread * self.misbehaves.get("slow", 1.0) + first

    def _spend(self, until):
        if self.mode == "work":
            end = time.thread_time() + until - time.monotonic()
            while time.thread_time() < end:
                pass
            return
        left = until - time.monotonic()
        if left > 0:
            time.sleep(left)

    def _obey(self):
        now = time.monotonic()
        if self.control and now - self.read_at > 0.1:
            self.read_at = now
            if Path(self.control).exists():
                self.misbehaves = json.loads(Path(self.control).read_text("utf-8"))

    def _text(self, key, default=""):
        return self.parameters.get(f"standin_{key}", {}).get("string_value", default)

    def _number(self, key):
        return float(self._text(key, "0") or 0)
