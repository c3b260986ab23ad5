"""How a patch is applied to a running server, what else that touches, and how it is taken back.

Triton 2.51, tried under load: neither a reload, nor a count changed in place, nor an unload loses a request that is
queued; after an unload new ones are refused until the model is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from diagnostics.checks.check import Suggestion
from diagnostics.errors import DiagError
from diagnostics.evidence.evidence import ENCLOSED, Evidence
from diagnostics.signals.signal import Subject
from diagnostics.tuning.changes import BlastRadius, ConfigChange, blast_radius
from diagnostics.tuning.patch import Patch, patch
from diagnostics.wire.model_config import ModelConfig
from diagnostics.wire.servers.kind import ServerKind

_COUNT = "instance_group.count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Sentences without a full stop.

    Attributes:
        touches: what applying it does to the running server.
        apply: what to do, by the server's model control mode; empty without a patch.
        how: the same, in front of the requests `posts`; empty without a patch.
        posts: paths of the requests that have the server read the patch; empty where it does so by itself.
        undo: how to go back; empty without a patch.

    """

    touches: str
    apply: str = ""
    how: str = ""
    posts: tuple[str, ...] = ()
    undo: str = ""


def steps(
    change: ConfigChange,
    made: Patch | None,
    radius: BlastRadius,
    config: ModelConfig | None,
    *,
    engine: bool,
    control: str = "",
) -> Steps:
    """Return how to apply a patch; only what it touches where there is none.

    `engine` says that the model is an engine, whose memory has no room for a second copy. `control` is the server's
    model control mode, empty where it was not read.
    """
    touches = _touches(change, radius, config, engine=engine, control=control)
    if made is None:
        return Steps(touches=touches)
    posts = _posts(change.model, alone=engine and radius is not BlastRadius.IN_PLACE)
    edit = _edit(made, change.model)
    back = "patch -R -p1" if made.base == "file" else "put the former text back"
    return Steps(
        touches=touches,
        apply=f"{edit}, then {_load(posts, control)}",
        how=f"{edit}, then {_HOW.get(control, _HOW_UNKNOWN)}",
        posts=posts if control in ("", "explicit") else (),
        undo=f"{back}, then {_AGAIN.get(control, _AGAIN_UNKNOWN)}",
    )


_HOW = {
    "explicit": "load it (model control mode explicit):",
    "poll": "wait for the next poll (model control mode poll)",
    "none": "restart the server (model control mode none)",
    ENCLOSED: "restart the worker of NVIDIA Dynamo, which loads its model when it starts",
}
_HOW_UNKNOWN = (
    "restart the server (--model-control-mode none, the default), wait for the next poll (poll), or load it (explicit):"
)
_AGAIN = {
    "explicit": "load it again",
    "poll": "wait for the next poll",
    "none": "restart the server again",
    ENCLOSED: "restart the worker again",
}
_AGAIN_UNKNOWN = "load, wait or restart as before"


def _edit(made: Patch, model: str) -> str:
    return "patch -p1 in the model repository" if made.base == "file" else f"edit {model}/config.pbtxt as it states"


def _posts(model: str, *, alone: bool) -> tuple[str, ...]:
    at = f"/v2/repository/models/{quote(model, safe='', errors='replace')}"
    return (f"{at}/unload", f"{at}/load") if alone else (f"{at}/load",)


def _load(posts: tuple[str, ...], control: str) -> str:
    if control in ("poll", "none", ENCLOSED):
        return _HOW[control]
    at = f"POST {posts[0]}{' and …/load' if len(posts) > 1 else ''}"
    if control:
        return f"{at} (model control explicit)"
    if len(posts) > 1:
        return f"{at} (model control explicit), or restart the server"
    return f"{at} (model control explicit), wait for the next poll (poll), or restart (none)"


def _touches(
    change: ConfigChange, radius: BlastRadius, config: ModelConfig | None, *, engine: bool, control: str
) -> str:
    copies = "; each further instance holds its own copy of the model" if _adds_instances(change, config) else ""
    if control in ("none", ENCLOSED) and radius is not BlastRadius.ENGINE_REBUILD:
        return f"{_RESTART}{copies}"
    match radius:
        case BlastRadius.IN_PLACE:
            return f"applied in place, without a reload{'' if control else _UNLESS_RESTARTED}{copies}"
        case BlastRadius.RELOAD if engine:
            return "unloads and loads the engine: requests are refused during the load, so change one replica at a time"
        case BlastRadius.RELOAD:
            return f"{_RELOAD}{'' if control else _UNLESS_RESTARTED}"
        case BlastRadius.ENGINE_REBUILD:
            return "needs a new engine"


def _adds_instances(change: ConfigChange, config: ModelConfig | None) -> bool:
    held = max((group.count for group in config.instance_groups if not group.passive), default=1) if config else 1
    return any(
        setting.path == _COUNT and isinstance(setting.value, int) and setting.value > held
        for setting in change.settings
    )


_MOST, _BATCHER = "max_batch_size", "dynamic_batching"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """How to apply a suggestion.

    Attributes:
        patch: what to apply; None when no setting does it or no text could be made.
        blast_radius: what applying it does to the running server; None without a setting.
        note: why there is no patch, or what to know before applying it; may be empty.
        steps: how to apply and undo it, and what that touches; None without a setting.

    """

    patch: Patch | None
    blast_radius: BlastRadius | None
    note: str = ""
    steps: Steps | None = None


def advice(evidence: Evidence, on: Subject, suggestion: Suggestion) -> Advice | None:
    """Return how to apply a suggestion; None when it changes no setting."""
    change = suggestion.change
    if change is None or on.model is None:
        return None
    if kind := evidence.server_kind(on):
        return _own_words(kind, change, written=bool(suggestion.text))
    config = evidence.config(on)
    radius = blast_radius(change, backend=config.backend or config.platform if config else "")
    path = f"{on.model}/config.pbtxt"
    try:
        made = patch(change, file_text=evidence.config_file(on), path=path, effective=config)
    except DiagError as error:
        return Advice(patch=None, blast_radius=radius, note=str(error))
    shown, engine = made if made.text else None, evidence.is_engine(on)
    how = steps(change, shown, radius, config, engine=engine, control=evidence.model_control(on.server))
    notes = (*made.notes, _unbatched(change, config)) if not engine else made.notes
    return Advice(patch=shown, blast_radius=radius, note="; ".join(filter(None, notes)), steps=how)


def _unbatched(change: ConfigChange, config: ModelConfig | None) -> str:
    """Return that a larger `max_batch_size` alone forms no batches; empty where something forms them, or may."""
    larger = any(one.path == _MOST and isinstance(one.value, int) and one.value > 1 for one in change.settings)
    batcher = any(one.path.partition(".")[0] == _BATCHER and one.value is not None for one in change.settings)
    if not larger or batcher or config is None or config.dynamic_batching or config.sequence_batching:
        return ""
    return "without a dynamic batcher, Triton executes requests one by one: add dynamic_batching { } in the same change"


def _own_words(kind: ServerKind, change: ConfigChange, *, written: bool) -> Advice:
    """Return how to change options of a server other than Triton; `written` says that the suggestion states them."""
    options = {"engine.max_batch_size": kind.slots, "engine.max_num_tokens": kind.tokens}
    words = []
    for setting in change.settings:
        option, value = options.get(setting.path), setting.value
        if option is not None and isinstance(value, int):
            words.append(option.setting(value))
        else:
            words.append(f"{setting.path.removeprefix('engine.')} {value}")
    note = "" if written else f"restart {kind.restarted} for {change.model} with {' and '.join(words)}"
    return Advice(patch=None, blast_radius=None, note=note, steps=Steps(touches=_RESTART))


_RESTART = "takes effect at the restart: drain the server first, as requests are refused until its models are loaded"
_RELOAD = "reloads the model: both copies are in memory during the load; queued requests are still answered"
_UNLESS_RESTARTED = ", unless the server must restart"
