"""A model of a drawn kind with an oddity: it stands still at times, ages, compiles, or calls others too often."""

import time
from concurrent.futures import ThreadPoolExecutor

import triton_python_backend_utils as pb_utils
from kind_model import TritonPythonModel as KindModel


class TritonPythonModel(KindModel):
    """Besides what models of kinds know, from `parameters` that begin with `standin_`; times in milliseconds.

    standin_pause_every_ms, standin_pause_ms: all its instances stand still for so long, at the same times.
    standin_ages_ms: each execution of an instance takes so much longer than the one before.
    standin_keeps_kb: each execution keeps so much memory for good.
    standin_per_value_ms: what each number of a request costs.
    standin_compile_ms: what the first request of each width costs an instance.
    standin_threads: above 0 the requests of a batch are worked on by so many threads of the one interpreter.
    standin_each_row: 1 calls the first of `standin_calls` once for each row instead of once.
    standin_times: how many times it calls that.
    standin_calls_below: it calls others only if the first number is below this, and passes that on plus one.
    standin_part_ms: what each response of a decoupled model takes.
    """

    def initialize(self, args):
        super().initialize(args)
        self.pause_every, self.pause = self._number("pause_every_ms") / 1e3, self._number("pause_ms") / 1e3
        self.ages, self.age, self.kept = self._number("ages_ms") / 1e3, 0.0, []
        self.per_value, self.compiling = self._number("per_value_ms") / 1e3, self._number("compile_ms") / 1e3
        self.widths, self.due = set(), 0.0
        threads = int(self._number("threads"))
        self.workers = ThreadPoolExecutor(max_workers=threads) if threads else None
        self.each_row, self.times = self._number("each_row"), int(self._number("times")) or 1
        self.calls_below, self.part = self._number("calls_below"), self._number("part_ms") / 1e3

    def execute(self, requests):
        if kilobytes := int(self._number("keeps_kb")):
            self.kept.append(b"x" * (1024 * kilobytes))
        return super().execute(requests)

    def _rows(self, request):
        rows = super()._rows(request)
        self.due += self.per_value * rows.size
        if self.compiling and rows.shape[-1] not in self.widths:
            self.widths.add(rows.shape[-1])
            self.due += self.compiling
        return rows

    def _seconds(self, items):
        more, self.due = self.due + self.age, 0.0
        self.age += self.ages
        if self.workers is not None:
            each = super()._seconds(1)
            list(self.workers.map(lambda _: self._work(each), range(items)))
            return 0.0
        return super()._seconds(items) + more

    def _work(self, seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    def _spend(self, until):
        super()._spend(until)
        if self.pause_every and (into := time.time() % self.pause_every) < self.pause:
            time.sleep(self.pause - into)

    def _respond(self, request, rows):
        if self.calls_below:
            return self._pass_on(rows)
        if not self.each_row and self.times == 1:
            return super()._respond(request, rows)
        asked = [rows[at : at + 1] for at in range(len(rows))] if self.each_row else [rows]
        for part in asked * self.times:
            answer = self._call(self.calls[0], part, None)[0]
            if answer.has_error():
                return pb_utils.InferenceResponse(error=answer.error())
        return pb_utils.InferenceResponse(output_tensors=[self._output(rows)])

    def _pass_on(self, rows):
        if rows[0][0] < self.calls_below:
            answer = self._call(self.calls[0], rows + 1, None)[0]
            if answer.has_error():
                return pb_utils.InferenceResponse(error=answer.error())
        return pb_utils.InferenceResponse(output_tensors=[self._output(rows)])

    def _send(self, sender, rows):
        if not self.part:
            super()._send(sender, rows)
            return
        for _ in range(self.parts):
            time.sleep(self.part)
            sender.send(pb_utils.InferenceResponse(output_tensors=[self._output(rows)]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
