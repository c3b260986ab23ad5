"""What to set where an engine's KV cache is too small, from what is set now."""

from __future__ import annotations

from math import ceil

from diagnostics.checks.check import Suggestion
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.engine import ENGINE_PEAK_HELD, ENGINE_SLOTS
from diagnostics.signals.engine_cache import ENGINE_BLOCK_TOKENS, ENGINE_KV_BLOCKS, ENGINE_KV_NEED
from diagnostics.signals.subject import Subject
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.wire.json_body import number

MOST_TOKENS = "max_tokens_in_paged_kv_cache"
MEMORY_FRACTION = "kv_cache_free_gpu_mem_fraction"
# The backend's default, and what its documentation advises for an engine alone on its GPU.
USUAL_FRACTION = 0.9


def parameter(see: Ledger, on: Subject, key: str) -> str:
    """Return a parameter of the model's configuration; empty when it is not set, or a template left unfilled."""
    config = see.evidence.config(on)
    value = config.parameters.get(key, "") if config else ""
    return "" if "${" in value else value


def parameter_change(on: Subject, key: str, value: str) -> ConfigChange:
    """Return the change of one parameter."""
    return ConfigChange(model=on.model or "", settings=(Setting(path=f"parameters.{key}", value=value),))


def larger_cache(see: Ledger, on: Subject) -> Suggestion:
    """Return how to give the KV cache more blocks: through the setting that limits it now, where that is known."""
    tokens, fraction = _wanted_tokens(see, on), number(parameter(see, on, MEMORY_FRACTION))
    reload = "unload the model first, so that the new copy finds the memory"
    now = number(parameter(see, on, MOST_TOKENS))
    if now and tokens and tokens > now:
        return Suggestion(
            text=f"raise {MOST_TOKENS} of {on.model} from {now:.0f} to {tokens}, as far as GPU memory allows; {reload}",
            change=parameter_change(on, MOST_TOKENS, str(tokens)),
        )
    if not now and fraction and fraction < USUAL_FRACTION:
        return Suggestion(
            text=f"raise {MEMORY_FRACTION} of {on.model} from {fraction:g} to {USUAL_FRACTION:g}; {reload}",
            change=parameter_change(on, MEMORY_FRACTION, f"{USUAL_FRACTION:g}"),
        )
    size = f" for about {tokens} tokens" if tokens else ""
    return Suggestion(
        text=f"give {on.model}'s engine a larger KV cache{size} ({MOST_TOKENS}, {MEMORY_FRACTION}), or let clients ask "
        f"for fewer max_tokens; never more instances; {reload}"
    )


def _wanted_tokens(see: Ledger, on: Subject) -> int | None:
    """Return the tokens that all requests of the fullest read need, slots permitting: two to four times today's.

    A starved engine's backlog is larger than what one with room would hold, so all of it is never needed.
    """
    need, tokens = see.read(ENGINE_KV_NEED, on).value, see.read(ENGINE_BLOCK_TOKENS, on).value
    blocks, held = see.read(ENGINE_KV_BLOCKS, on).value, see.read(ENGINE_PEAK_HELD, on).value
    if not (need and tokens and blocks and held):
        return None
    at_once = min(held, see.read(ENGINE_SLOTS, on).value or held)
    return round(min(max(ceil(need * at_once), 2 * blocks), 4 * blocks) * tokens)
