"""A model of a drawn kind with an oddity: it stands still at times, ages, compiles, or calls others too often."""

import fcntl
import hashlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import triton_python_backend_utils as pb_utils
from kind_model import TritonPythonModel as KindModel


class TritonPythonModel(KindModel):
    """Besides what models of kinds know, from `parameters` that begin with `standin_`; times in milliseconds.

    standin_pause_every_ms, standin_pause_ms: all its instances stand still for so long, at the same times.
    standin_ages_ms: each execution of an instance takes so much longer than the one before.
    standin_keeps_kb: each execution keeps so much memory for good, the first `standin_keeps_most` if there is one.
    standin_per_value_ms: what each number of a request costs.
    standin_compile_ms: what the first request of each width costs an instance.
    standin_threads: above 0 the requests of a batch are worked on by so many threads of the one interpreter.
    standin_each_row: 1 calls the first of `standin_calls` once for each row instead of once.
    standin_times: how many times it calls that.
    standin_calls_below: it calls others only if the first number is below this, and passes that on plus one.
    standin_part_ms: what each response of a decoupled model takes.
    standin_stall_share, standin_stall_ms: this share of executions waits so long for somebody else.
    standin_every, standin_collect_ms: after so many executions an instance collects garbage for so long.
    standin_first_lane: the first instance takes so many times as long.
    standin_idle_ms, standin_wakes_ms: an execution after so long without one takes longer.
    standin_spinners: so many threads spin while an execution lasts.
    standin_lock_of: the model whose lock it takes; needs `standin_locked`.
    standin_squared_ms: what an execution of n rows costs on top, times n².
    standin_permits: so many of its instances may execute at once.
    standin_fails_share, standin_fails_ms: this share of executions ends with an error after so long.
    standin_fallback: 1 calls the second of `standin_calls` only if the first answers with an error.
    standin_by_key: 1 calls the one of `standin_calls` that the first number of a request says.
    standin_quota: all its instances together get so many answers a second from somebody else.
    standin_poison: a request that begins with this number ends the instance's process.
    Its control file may also say {"stall": [instance, ms]}, which happens once, and
    {"slow_falls": [factor, seconds]}: it is so many times as slow, and as fast as before after so many seconds.
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
        self.executions, self.last = 0, time.monotonic()
        self.stall_share, self.stall = self._number("stall_share"), self._number("stall_ms") / 1e3
        self.idle, self.wakes = self._number("idle_ms") / 1e3, self._number("wakes_ms") / 1e3
        if owner := self._text("lock_of"):
            self.lock = (Path(self.control).parent / f"{owner}.shared").open("w")
        self.squared, self.failing = self._number("squared_ms") / 1e3, False
        permits = range(int(self._number("permits")))
        self.permits = [Path(f"{self.control}.permit-{number}").open("w") for number in permits]  # noqa: SIM115
        self.quota, self.poison = self._number("quota"), self._text("poison")
        self.quotas = Path(f"{self.control}.quota").open("a+") if self.quota else None  # noqa: SIM115
        self.stalled, self.flushed = False, 0.0
        self.spinning = threading.Event()
        for _ in range(int(self._number("spinners"))):
            threading.Thread(target=self._spin, daemon=True).start()

    def execute(self, requests):
        most = self._number("keeps_most") or float("inf")
        if (kilobytes := int(self._number("keeps_kb"))) and len(self.kept) < most:
            self.kept.append(b"x" * (1024 * kilobytes))
        if self.poison and any(float(self._rows(each).flat[0]) == float(self.poison) for each in requests):
            os._exit(1)
        permit = self._permit()
        answers = super().execute(requests)
        if permit is not None:
            fcntl.flock(permit, fcntl.LOCK_UN)
        self.last = time.monotonic()
        return answers

    def _obey(self):
        super()._obey()
        lane, ms = self.misbehaves.get("stall", (-1, 0))
        if lane == self.lane and not self.stalled:
            self.stalled = True
            time.sleep(ms / 1e3)
        factor, seconds = self.misbehaves.get("slow_falls", (1.0, 1.0))
        if factor > 1:
            self.flushed = self.flushed or time.monotonic()
            left = max(0.0, 1 - (time.monotonic() - self.flushed) / seconds)
            self.misbehaves["slow"] = 1 + (factor - 1) * left

    def _await_quota(self):
        """Wait for the next answer that all instances together may have."""
        fcntl.flock(self.quotas, fcntl.LOCK_EX)
        self.quotas.seek(0)
        due = max(float(self.quotas.read() or 0), time.time())
        self.quotas.seek(0)
        self.quotas.truncate()
        self.quotas.write(str(due + 1 / self.quota))
        self.quotas.flush()
        fcntl.flock(self.quotas, fcntl.LOCK_UN)
        time.sleep(max(0.0, due - time.time()))

    def _permit(self):
        while self.permits:
            for permit in self.permits:
                with suppress(BlockingIOError):
                    fcntl.flock(permit, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return permit
            time.sleep(0.001)
        return None

    def _spin(self):
        data = bytes(1 << 22)
        while self.spinning.wait():
            hashlib.sha256(data)

    def _rows(self, request):
        rows = super()._rows(request)
        self.due += self.per_value * rows.size
        if self.compiling and rows.shape[-1] not in self.widths:
            self.widths.add(rows.shape[-1])
            self.due += self.compiling
        return rows

    def _seconds(self, items):
        more, self.due = self.due + self.age + self.squared * items**2, 0.0
        self.failing = self.random.random() < self._number("fails_share")
        more += self._number("fails_ms") / 1e3 if self.failing else 0.0
        self.age += self.ages
        if self.workers is not None:
            each = super()._seconds(1)
            list(self.workers.map(lambda _: self._work(each), range(items)))
            return 0.0
        if self.lane == 0:
            more += super()._seconds(items) * max(0.0, self._number("first_lane") - 1)
        return super()._seconds(items) + more + self._now_and_then()

    def _now_and_then(self):
        self.executions += 1
        seconds = self.stall if self.random.random() < self.stall_share else 0.0
        if self.idle and time.monotonic() - self.last > self.idle:
            seconds += self.wakes
        every = int(self._number("every"))
        # Not all instances at once: each begins elsewhere.
        if every and (self.executions + self.lane * every // 3) % every == 0:
            seconds += self._number("collect_ms") / 1e3
        return seconds

    def _work(self, seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    def _spend(self, until):
        self.spinning.set()
        super()._spend(until)
        self.spinning.clear()
        if self.pause_every and (into := time.time() % self.pause_every) < self.pause:
            time.sleep(self.pause - into)

    def _respond(self, request, rows):
        if self.quota:
            self._await_quota()
        if self._number("by_key"):
            return self._ask_one([self.calls[int(rows[0][0]) % len(self.calls)]], rows)
        if self.failing:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("no answer from the feature store"))
        if self.calls_below:
            return self._pass_on(rows)
        if self._number("fallback"):
            return self._first_without_error(rows)
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

    def _ask_one(self, groups, rows):
        for group in groups:
            answer = self._call(group, rows, None)[0]
            if answer.has_error():
                return pb_utils.InferenceResponse(error=answer.error())
        return pb_utils.InferenceResponse(output_tensors=[self._output(rows)])

    def _first_without_error(self, rows):
        for group in self.calls:
            answer = self._call(group, rows, None)[0]
            if not answer.has_error():
                return pb_utils.InferenceResponse(output_tensors=[self._output(rows)])
        return pb_utils.InferenceResponse(error=answer.error())

    def _send(self, sender, rows):
        if not self.part:
            super()._send(sender, rows)
            return
        for _ in range(self.parts):
            time.sleep(self.part)
            sender.send(pb_utils.InferenceResponse(output_tensors=[self._output(rows)]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
