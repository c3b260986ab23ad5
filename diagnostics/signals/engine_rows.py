"""Which rows are engines': models that batch inside, and what their rows show of their time."""

from __future__ import annotations

from diagnostics import names
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.reading import Missing
from diagnostics.signals.triton import OUTPUT_SECONDS
from diagnostics.window.view import ModelView
from diagnostics.wire.engine import is_served, shows_engine
from diagnostics.wire.model_config import ModelConfig

# Handing a request to an engine takes up to some milliseconds. A generation takes longer: ten tokens at the 5 ms that
# a fast iteration takes.
LONGEST_HANDOVER = 0.05
# An engine takes each request as it comes, so that what hands it over idles; one that is busy half of its time works.
MOST_BUSY = 0.5
# To hand requests to threads of its own takes a Python model some tenths of a millisecond.
_LONGEST_START = 0.001
# At the end of an execution Triton copies answers out of a Python process: it was measured as 30 µs and more. Where
# threads answer later there are none, which takes 4 to 10 µs.
_NOTHING_COPIED = 15e-6


def is_engine(view: ModelView) -> bool:
    """Return whether the model batches inside: by its backend, its exported gauges, or what its requests bring.

    Its row shows batch size 1 and no queue even when hundreds of requests wait inside.
    """
    config = view.config
    if config is not None and config.backend in names.ENGINE_BACKENDS:
        return True
    if any(shows_engine(snapshot.layout, view.model or "") for _, _, snapshot in view.server.snapshots[-1:]):
        return True
    return config is not None and generates(config) and _only_hands_over(view)


def shows_its_time(view: ModelView) -> bool:
    """Return whether the engine's own time is in the row's compute, not hidden in a gap: C++ backend, trtllm-serve."""
    if view.config is not None:
        return view.config.backend in names.ENGINE_BACKENDS_WITH_TIME
    return any(is_served(snapshot.layout, view.model or "") for _, _, snapshot in view.server.snapshots[-1:])


def hides_its_time(view: ModelView) -> bool:
    """Return whether the model answers from a thread of its own, so that its row shows only what starts that."""
    decoupled = view.config is not None and view.config.decoupled
    return (is_engine(view) or decoupled or answers_apart(view)) and not shows_its_time(view)


def answers_apart(view: ModelView) -> bool:
    """Return whether executions of a Python model end at once and without answers: threads of its own send them."""
    config = view.config
    if config is None or config.backend != names.PYTHON_BACKEND or config.response_cache:
        return False  # an answer from the cache copies nothing either
    copied, execution = OUTPUT_SECONDS.read(view).value, EXECUTION_SECONDS.read(view).value
    if not copied or not execution:
        return False
    return copied < _NOTHING_COPIED and execution < _LONGEST_START


def generates(config: ModelConfig) -> bool:
    """Return whether a Python model has the interface of an engine's: TensorRT-LLM's LLM API or runtime, or vLLM's.

    One that names other models in its parameters has the same interface, and calls the engine (TensorRT-LLM's BLS).
    """
    if config.backend != names.PYTHON_BACKEND or any(key.endswith(names.CALLED_MODEL) for key in config.parameters):
        return False
    brought = {one.name for one in config.inputs}
    text = names.TEXT_INPUT in brought
    return (
        (text and any(name.startswith(names.LLM_API_SAMPLING) for name in brought))
        or (text and config.decoupled and names.VLLM_SAMPLING in brought)
        or (brought >= names.RUNTIME_INPUTS and names.ENGINE_PATH in config.parameters)
    )


def _only_hands_over(view: ModelView) -> bool:
    """Return whether nothing shows the model at work in its own row; what was not read shows nothing."""
    execution, busy = EXECUTION_SECONDS.read(view).value, INSTANCE_BUSY_SHARE.read(view)
    works = busy.missing is Missing.CONFLICTING or (busy.value or 0.0) >= MOST_BUSY
    return (execution or 0.0) < LONGEST_HANDOVER and not works
