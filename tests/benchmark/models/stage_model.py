"""A stage of a drawn deployment: takes its time and hands its input on."""

import threading
import time

import triton_python_backend_utils as pb_utils
from own import outgoing, wait_asleep
from stage import Stage, tensor


class TritonPythonModel(Stage):
    """Besides what all stages know, from `parameters`; times in milliseconds.

    standin_load_ms: what loading takes.
    standin_broken: why loading fails.
    standin_hang_after: executions after which an instance never comes back from one; 0 for none.
    service_mode: also `work`, processor time of its own, however long that takes.
    """

    def initialize(self, args):
        wait_asleep(args)
        super().initialize(args)
        time.sleep(float(self._text("standin_load_ms", "0")) / 1e3)
        self.hang_after = int(self._text("standin_hang_after", "0"))
        self.executions = 0
        if reason := self._text("standin_broken", ""):
            raise pb_utils.TritonModelException(reason)

    def execute(self, requests):
        self.executions += 1
        if 0 < self.hang_after < self.executions:
            threading.Event().wait()
        return super().execute(requests)

    def answer(self, request):
        return [outgoing("OUT", tensor(request, "IN"))]

    def _text(self, key, default):
        return self.parameters.get(key, {}).get("string_value", default)

    def _spend(self, until):
        if self.service.mode != "work":
            super()._spend(until)
            return
        end = time.thread_time() + until - time.monotonic()
        while time.thread_time() < end:
            pass
