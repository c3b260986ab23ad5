"""Which models answer a request with any number of responses."""

from __future__ import annotations

from collections.abc import Callable

from diagnostics.lint.engines import VLLM, code_of
from diagnostics.lint.llm_api import llm_arguments
from diagnostics.lint.model_folder import ModelFolder, remembered
from diagnostics.lint.tensors import steps

Named = Callable[[str], ModelFolder | None]


@remembered
def decoupled(model: ModelFolder) -> bool | None:
    """Return whether a model that is no ensemble is decoupled; None when a template, or its code, may decide.

    Source: vllm_backend, `model.py` (`auto_complete_config`): one that says nothing becomes decoupled. One of the LLM
    API takes it from its `model.yaml`.
    """
    if model.config is None or model.config.has("model_transaction_policy") is None:
        return None
    policy = model.config.block("model_transaction_policy")
    if policy is not None:
        return policy.flag("decoupled")
    if model.backend == VLLM:
        return True
    written = llm_arguments(model)
    if written is not None:
        said = written.section("triton_config").get("decoupled")
        return said if isinstance(said, bool) else None
    sets = model.backend is None or any("set_model_transaction_policy" in file.text for file in code_of(model))
    return None if sets else False


def streams(model: ModelFolder, named: Named) -> bool | None:
    """Return whether a model or an ensemble, of which one member is enough, is decoupled; None when it is unknown.

    Source: Triton core, which sets the policy of ensembles itself: seen on Triton 2.51.
    """
    said, seen, waiting = set[bool | None](), {model.path}, [model]
    while waiting:
        one = waiting.pop()
        if not one.ensemble or one.config is None:
            said.add(decoupled(one))
            continue
        members = [named(step.model) if step.model else None for step in steps(one.config)]
        said |= {None} if None in members else set()
        new = {member.path: member for member in members if member is not None and member.path not in seen}
        seen |= set(new)
        waiting += new.values()
    return True if True in said else (None if None in said else False)
