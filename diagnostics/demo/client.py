"""Sends requests with `tritonclient`, all from one thread: needs the extra `demo`.

The client library is built on gevent. Greenlets of one thread keep two hundred requests a second exact on a
busy machine, where as many threads would wait for each other.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from diagnostics.demo.load import LoadProfile, LoadProgress, Pattern, SentRequest, schedule
from diagnostics.errors import CollectError, DiagError, UsageError

try:
    import gevent
    import gevent.pool
    import numpy as np
    import tritonclient.http as triton
    from tritonclient.utils import InferenceServerException
except ImportError as error:
    raise UsageError("sending load needs tritonclient", hint="pip install 'triton-diagnostics[demo]'") from error

if TYPE_CHECKING:
    from numpy.typing import NDArray

_VARIANTS = 64
_PROMPT_WORDS = (16, 48)
_FAILURES = (InferenceServerException, OSError, HTTPException)


class LoadClient:
    """One run of a load. `run` blocks its thread; the other methods may be called from another one."""

    def __init__(self, url: str, profile: LoadProfile, *, max_in_flight: int, request_timeout: float) -> None:
        self._address = urlsplit(url).netloc
        self._profile, self._limit, self._timeout = profile, max_in_flight, request_timeout
        self._stopped = threading.Event()
        self._records: list[SentRequest] = []
        self._errors = 0
        self._started = time.monotonic()
        self._failure: DiagError | None = None

    def stop(self) -> None:
        """Send nothing more; `run` then returns once what is out was answered."""
        self._stopped.set()

    def progress(self) -> LoadProgress:
        """Return how far the run is."""
        return LoadProgress(elapsed=time.monotonic() - self._started, answered=len(self._records), errors=self._errors)

    def result(self) -> list[SentRequest]:
        """Return the records in order of sending.

        Raises:
            DiagError: the run could not start; see `diagnostics.demo.driving.run_load`.

        """
        if self._failure is not None:
            raise self._failure
        return sorted(self._records, key=lambda record: record.t)

    def run(self) -> None:
        """Send the load, and keep a failure to start for `result`."""
        try:
            with triton.InferenceServerClient(
                self._address, concurrency=self._limit, network_timeout=self._timeout
            ) as client:
                self._send_all(client, make_requests(client, self._profile))
        except DiagError as error:
            self._failure = error
        finally:
            gevent.get_hub().destroy(destroy_loop=True)

    def _send_all(self, client: Any, variants: list[list[Any]]) -> None:
        pool = gevent.pool.Pool(self._limit)
        self._started = time.monotonic()
        if self._profile.pattern is Pattern.CLOSED:
            for index in range(self._profile.concurrency):
                pool.spawn(self._loop, client, variants, index)
        else:
            self._send_when_due(pool, client, variants)
        pool.join()

    def _send_when_due(self, pool: Any, client: Any, variants: list[list[Any]]) -> None:
        for index, offset in enumerate(schedule(self._profile)):
            due = self._started + offset
            while (left := due - time.monotonic()) > 0 and not self._stopped.is_set():
                gevent.sleep(min(left, 0.5))
            if self._stopped.is_set():
                return
            pool.spawn(self._ask, client, variants[index % len(variants)], due)

    def _loop(self, client: Any, variants: list[list[Any]], index: int) -> None:
        while not self._stopped.is_set() and time.monotonic() - self._started < self._profile.duration:
            self._ask(client, variants[index % len(variants)], time.monotonic())
            index += self._profile.concurrency

    def _ask(self, client: Any, inputs: list[Any], due: float) -> None:
        wall, sent = time.time(), time.monotonic()
        code = 200
        try:
            client.infer(self._profile.model, inputs)
        except _FAILURES as error:
            code = _status(error)
        self._errors += code != 200
        self._records.append(
            SentRequest(
                t=wall,
                model=self._profile.model,
                ms=(time.monotonic() - sent) * 1e3,
                ok=code == 200,
                code=code,
                delay_ms=max(0.0, sent - due) * 1e3,
            )
        )


def _status(error: Exception) -> int:
    status = error.status() if isinstance(error, InferenceServerException) else None
    return int(status) if status and status.isdigit() else 0


def make_requests(client: Any, profile: LoadProfile) -> list[list[Any]]:
    """Return some sets of inputs for the profile's model, made after the configuration that the server tells.

    Raises:
        UsageError: the server has no such model.
        CollectError: the server does not answer.

    """
    try:
        config = client.get_model_config(profile.model)
    except InferenceServerException as error:
        raise UsageError(f"the server has no model {profile.model!r} to send load to", hint=str(error)) from error
    except _FAILURES as error:
        raise CollectError("the server does not answer", where=profile.model, hint=str(error)) from error
    chance = random.Random(profile.seed)  # noqa: S311
    return [_one_request(config, profile, chance) for _ in range(_VARIANTS)]


def _one_request(config: Mapping[str, Any], profile: LoadProfile, chance: random.Random) -> list[Any]:
    words = chance.randint(*_PROMPT_WORDS)
    batched = [1] if config.get("max_batch_size") else []
    inputs = []
    for field in config["input"]:
        shape = batched + [words if int(size) < 0 else int(size) for size in field["dims"]]
        data = _data(field, shape, words, profile, chance)
        tensor = triton.InferInput(
            field["name"], shape, field["data_type"].removeprefix("TYPE_").replace("STRING", "BYTES")
        )
        tensor.set_data_from_numpy(data)
        inputs.append(tensor)
    return inputs


def _data(
    field: Mapping[str, Any], shape: list[int], words: int, profile: LoadProfile, chance: random.Random
) -> NDArray[Any]:
    name, kind = field["name"].lower(), field["data_type"]
    if kind == "TYPE_STRING":
        prompt = " ".join(f"word{chance.randrange(10_000)}" for _ in range(words))
        return np.full(shape, prompt.encode(), dtype=np.object_)
    if "output_len" in name or name == "max_tokens":
        return np.full(shape, profile.max_tokens, dtype=np.int32)
    if "length" in name or "input_len" in name:
        return np.full(shape, words, dtype=np.int32)
    numbers = [chance.randrange(1, 32_000) for _ in range(int(np.prod(shape)))]
    return np.array(numbers, dtype=triton_dtype(kind)).reshape(shape)


def triton_dtype(kind: str) -> type[np.generic]:
    """Return the array type of a `data_type` of a model configuration.

    Raises:
        UsageError: load cannot be made of that type.

    """
    known: dict[str, type[np.generic]] = {
        "TYPE_INT32": np.int32,
        "TYPE_INT64": np.int64,
        "TYPE_FP32": np.float32,
    }
    if kind not in known:
        raise UsageError(f"cannot make inputs of {kind}", hint="send load to the ensemble instead")
    return known[kind]
