"""What to set where an engine's KV cache is too small, from what is set now."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import ceil

from msgspec.structs import replace

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Claim, Quiet, Suggestion
from diagnostics.checks.gates import Gate, first_rival
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.engine import (
    ENGINE_BLOCK_TOKENS,
    ENGINE_KV_BLOCKED,
    ENGINE_KV_BLOCKS,
    ENGINE_KV_NEED,
    ENGINE_KV_USED,
    ENGINE_MAX_UTILIZATION,
    ENGINE_MICRO_BATCHES,
    ENGINE_PAUSE_SECONDS,
    ENGINE_PAUSED_SHARE,
    ENGINE_PEAK_FILL,
    ENGINE_PEAK_HELD,
    ENGINE_PREEMPTED,
    ENGINE_PREFIX_HITS,
    ENGINE_SLOT_FILL,
    ENGINE_SLOTS,
    ENGINE_STATIC_BATCHING,
    ENGINE_WAIT_SECONDS,
    ENGINE_WAITING,
    ENGINE_WAITING_SHARE,
)
from diagnostics.signals.signal import Missing, Reading, Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUESTS
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.units import Unit
from diagnostics.wire.json_body import number
from diagnostics.wire.servers.kind import ServerKind, ServerOption

MOST_TOKENS = "max_tokens_in_paged_kv_cache"
MEMORY_FRACTION = "kv_cache_free_gpu_mem_fraction"
# The backend's default, and what its documentation advises for an engine alone on its GPU.
USUAL_FRACTION = 0.9


def parameter(ledger: Ledger, subject: Subject, key: str) -> str:
    """Return a parameter of the model's configuration; empty when it is not set, or a template left unfilled."""
    config = ledger.evidence.config(subject)
    value = config.parameters.get(key, "") if config else ""
    return "" if "${" in value else value


def parameter_change(subject: Subject, key: str, value: str) -> ConfigChange:
    """Return the change of one parameter."""
    return ConfigChange(model=subject.model or "", settings=(Setting(path=f"parameters.{key}", value=value),))


def larger_cache(ledger: Ledger, subject: Subject) -> Suggestion:
    """Return how to give the KV cache more blocks: through the setting that limits it now, where that is known."""
    if kind := ledger.evidence.server_kind(subject):
        return _larger_cache_of(kind, subject)
    tokens, fraction = _wanted_tokens(ledger, subject), number(parameter(ledger, subject, MEMORY_FRACTION))
    reload = "unload the model first, so that the new copy finds the memory"
    now = number(parameter(ledger, subject, MOST_TOKENS))
    if now and tokens and tokens > now:
        return Suggestion(
            text=f"raise {MOST_TOKENS} of {subject.model} from {now:.0f} to {tokens}, as far as GPU memory allows; "
            f"{reload}",
            change=parameter_change(subject, MOST_TOKENS, str(tokens)),
        )
    if not now and fraction and fraction < USUAL_FRACTION:
        return Suggestion(
            text=f"raise {MEMORY_FRACTION} of {subject.model} from {fraction:g} to {USUAL_FRACTION:g}; {reload}",
            change=parameter_change(subject, MEMORY_FRACTION, f"{USUAL_FRACTION:g}"),
        )
    size = f" for about {tokens} tokens" if tokens else ""
    return Suggestion(
        text=f"give {subject.model}'s engine a larger KV cache{size} ({MOST_TOKENS}, {MEMORY_FRACTION}), or let "
        f"clients ask for fewer max_tokens; never more instances; {reload}"
    )


def _larger_cache_of(kind: ServerKind, subject: Subject) -> Suggestion:
    """Return how a server other than Triton is given a larger cache: with options of its own."""
    if kind.memory is None:
        how = f"give {kind.name} a larger KV cache for {subject.model}"
    else:
        how = f"restart {kind.restarted} for {subject.model} with a larger {kind.memory}"
    return Suggestion(text=f"{how}, on a GPU with memory to spare; or let clients ask for fewer max_tokens")


def prefix_advice(ledger: Ledger, subject: Subject) -> str:
    """Return what to look at where an engine reads all prompts again, to end a suggestion with; else empty."""
    hits = ledger.evidence.read(ENGINE_PREFIX_HITS, subject)
    if hits.value != 0 or (hits.events or 0.0) < ENOUGH_EVENTS:
        return ""
    return "; its prefix cache held nothing of the prompts: where they share a text, let them begin with it"


def with_advice(suggestion: Suggestion, more: str) -> Suggestion:
    """Return a suggestion that ends with more, which may be empty."""
    return dataclasses.replace(suggestion, text=f"{suggestion.text}{more}")


def restarted_with(
    kind: ServerKind, subject: Subject, option: ServerOption | None, setting: Setting, now: int
) -> Suggestion:
    """Return how to change a limit of a server other than Triton: with an option of its own."""
    wanted = setting.value if isinstance(setting.value, int) else now
    how = f"with {option.setting(wanted)}" if option else f"so that its limit is {wanted}"
    return Suggestion(
        text=f"restart {kind.restarted} for {subject.model} {how} instead of {now}",
        change=ConfigChange(model=subject.model or "", settings=(setting,)),
    )


def _wanted_tokens(ledger: Ledger, subject: Subject) -> int | None:
    """Return the tokens that all requests of the fullest read need, slots permitting: two to four times today's.

    A starved engine's backlog is larger than what one with room would hold, so all of it is never needed.
    """
    need, tokens = ledger.read(ENGINE_KV_NEED, subject).value, ledger.read(ENGINE_BLOCK_TOKENS, subject).value
    blocks, held = ledger.read(ENGINE_KV_BLOCKS, subject).value, ledger.read(ENGINE_PEAK_HELD, subject).value
    if not (need and tokens and blocks and held):
        return None
    at_once = min(held, ledger.read(ENGINE_SLOTS, subject).value or held)
    return round(min(max(ceil(need * at_once), 2 * blocks), 4 * blocks) * tokens)


WAITS = Limit(
    value=1 / 3,
    unit=Unit.RATIO,
    because="a queue that is there in under a third of the reads comes and goes with bursts; where a limit costs a "
    "third of a request it is there in half of them (M/M/c with 3 to 32 slots)",
)
SLOTS_TAKEN = Limit(
    value=0.65,
    unit=Unit.RATIO,
    because="a finished request's slot is free until the next iteration admits another: with short answers up to a "
    "third of full slots look empty while others wait",
)
SLOTS_REACHED = Limit(
    value=1.0, unit=Unit.RATIO, because="a limit that was never reached in any read is not what holds requests back"
)
SLOTS_LEFT = Limit(
    value=0.9,
    unit=Unit.RATIO,
    because="with a tenth of the slots free a larger cache lets only a tenth more run: the slots are the next limit",
)
KV_BLOCKED = Limit(
    value=0.5, unit=Unit.RATIO, because="what holds requests back is short at most reads at which they wait"
)
KV_RESERVED = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="guaranteed_no_evict keeps blocks free for each sequence's longest length, and a sequence is half written "
    "on average: a cache that is reserved to the full shows half of it in use",
)
KV_FULL = Limit(
    value=0.75, unit=Unit.RATIO, because="requests are paused when blocks run out, and free a share of them each time"
)
PAUSED = Limit(
    value=1 / 3,
    unit=Unit.RATIO,
    because="pausing now and then is what the policy is for; a third of the reads is the normal state",
)
PREEMPTED = Limit(
    value=0.05,
    unit=Unit.RATIO,
    because="only a cache without a free block puts a running request back: one in twenty is no accident of a burst",
)
EVICTS = Limit(value=0, unit=Unit.COUNT, because="guaranteed_no_evict pauses nothing for lack of blocks")
ONE_MICRO_BATCH = Limit(
    value=2, unit=Unit.COUNT, because="with pipeline parallelism the requests of other micro batches look waiting"
)


def nothing_held_back(ledger: Ledger, subject: Subject) -> Quiet | None:
    """Return the reason why nothing waits inside for long enough to matter; None when something does."""
    if not ledger.evidence.is_engine(subject):
        return Quiet(because="not an engine")
    if not ledger.read(REQUESTS, subject).value:
        return Quiet(because="no traffic")
    ledger.need(ENGINE_WAITING, subject)
    if not ledger.at_least(ENGINE_WAITING_SHARE, subject, WAITS):
        return Quiet(because="requests seldom wait inside the engine")
    _reads_suffice(ledger, subject)
    ledger.need(ENGINE_WAIT_SECONDS, subject)
    if not ledger.worthwhile("engine_least_wait_seconds", subject, _surely_waited(ledger, subject)):
        return Quiet(because="the wait inside the engine is a small part of the request")
    if ledger.ruled_out(ENGINE_MICRO_BATCHES, subject, ONE_MICRO_BATCH, above=True):
        return Quiet(because="requests of other micro batches look as if they waited")
    return None


def _reads_suffice(ledger: Ledger, subject: Subject) -> None:
    """End the check as unknown where the reads are so few that requests may as well never wait."""
    share = ledger.evidence.read(ENGINE_WAITING_SHARE, subject)
    if share.low is not None and share.low <= 0:
        raise Undecided(ENGINE_WAITING_SHARE.name, Missing.TOO_FEW_EVENTS)


def _surely_waited(ledger: Ledger, subject: Subject) -> Reading:
    """Return what requests have waited, less one standard error of the reads: they are few, and queues come and go.

    Part of any wait stays when its limit goes, too, since more requests at once make iterations longer.
    """
    wait = ledger.evidence.read(ENGINE_WAIT_SECONDS, subject)
    if wait.value is None or wait.low is None:
        return wait
    return replace(wait, value=wait.value - (wait.value - wait.low) / 1.96)


def batches_are_static(ledger: Ledger, subject: Subject) -> bool:
    """Return whether batches run to their end before others start; not said counts as no."""
    return bool(ledger.evidence.read(ENGINE_STATIC_BATCHING, subject).value)


def slots_are_taken(ledger: Ledger, subject: Subject) -> bool:
    """Return whether all slots are in use while requests wait."""
    if not ledger.at_least(ENGINE_SLOT_FILL, subject, SLOTS_TAKEN):
        return False
    return ledger.at_least(ENGINE_PEAK_FILL, subject, SLOTS_REACHED)


def cache_is_short(ledger: Ledger, subject: Subject) -> bool:
    """Return whether, while requests wait, the KV cache has mostly no room for one more."""
    return ledger.at_least(ENGINE_KV_BLOCKED, subject, KV_BLOCKED)


def running_are_put_back(ledger: Ledger, subject: Subject) -> bool:
    """Return whether the cache is short even of what the running requests need; not exported counts as no.

    Then it is a limit whatever the number of slots, which vLLM and SGLang do not export.
    """
    if not ledger.evidence.read(ENGINE_PREEMPTED, subject).value:
        return False
    return ledger.as_alternative().at_least(ENGINE_PREEMPTED, subject, PREEMPTED)


def cache_may_be_reserved(ledger: Ledger, subject: Subject) -> bool:
    """Return whether the blocks in use allow that the rest is promised to the requests that run."""
    return ledger.at_least(ENGINE_KV_USED, subject, KV_RESERVED)


def pausing_costs(ledger: Ledger, subject: Subject) -> bool:
    """Return whether requests are paused for a large part of their time; not exported counts as no.

    That part of the cache's shortage is `kv-cache-thrashing`; what waits beside less pausing is `kv-cache-exhausted`.
    """
    if not ledger.ruled_out(ENGINE_PAUSED_SHARE, subject, PAUSED, above=True):
        return False
    rival = ledger.as_rival()
    return pausing_is_cheap(rival, subject) is None and not never_pauses(rival, subject)


def pausing_is_cheap(ledger: Ledger, subject: Subject) -> str | None:
    """Return why requests that are paused at many reads lose little by it; None where it costs them."""
    if not ledger.at_least(ENGINE_KV_USED, subject, KV_FULL):
        return "the KV cache has room"
    if not ledger.worthwhile("engine_pause_seconds", subject, ledger.evidence.read(ENGINE_PAUSE_SECONDS, subject)):
        return "the time spent paused is a small part of the request"
    return None


def never_pauses(ledger: Ledger, subject: Subject) -> bool:
    """Return whether the configured policy is the one that pauses nothing; not stated counts as no."""
    return ledger.ruled_out(ENGINE_MAX_UTILIZATION, subject, EVICTS, above=False)


IN_ORDER = (
    Gate(batches_are_static, "batches are static: requests wait for a batch to end"),
    Gate(pausing_costs, "requests are paused for a large part of their time: the cache thrashes"),
    Gate(lambda ledger, subject: slots_are_taken(ledger.as_rival(), subject), "all slots are taken"),
    Gate(
        lambda ledger, subject: cache_is_short(ledger.as_rival(), subject),
        "the KV cache has no room for another request",
    ),
)
"""What holds requests back inside, the limit that they meet first standing first."""


HELD_LIMITS: Mapping[str, Limit] = {
    "engine_waiting_share": WAITS,
    "engine_slot_fill": SLOTS_TAKEN,
    "engine_peak_slot_fill": SLOTS_REACHED,
    "engine_kv_blocked_share": KV_BLOCKED,
    "engine_paused_share": PAUSED,
}
"""The numbers that these questions compare with."""


def held_earlier(ledger: Ledger, subject: Subject, limits: int) -> Quiet | None:
    """Return why nothing waits for the limit after the first so many: nothing waits at all, or for one of those."""
    return nothing_held_back(ledger, subject) or first_rival(ledger, subject, IN_ORDER[:limits])


def engine_phase(ledger: Ledger, subject: Subject) -> Phase:
    """Return the cell that holds the engine's time: compute in the C++ backend's row, else the hidden engine time."""
    return Phase.COMPUTE if ledger.evidence.shows_engine_time(subject) else Phase.ENGINE


def _wait_phase(ledger: Ledger, subject: Subject) -> Phase:
    """Return the cell that holds the wait: trtllm-serve counts it as queue, Triton's rows of engines have none."""
    queued, waited = (
        ledger.evidence.read(QUEUE_SECONDS, subject).value,
        ledger.evidence.read(ENGINE_WAIT_SECONDS, subject).value,
    )
    return Phase.QUEUE if queued and waited and queued >= waited / 2 else engine_phase(ledger, subject)


def wait_claim(ledger: Ledger, subject: Subject) -> Claim:
    """Return the claim of the time that requests wait inside."""
    seconds = ledger.evidence.read(ENGINE_WAIT_SECONDS, subject).value or 0.0
    return Claim(stage=subject.model or "", phase=_wait_phase(ledger, subject), seconds=seconds)
