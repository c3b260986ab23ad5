"""Settings written into the text of a `config.pbtxt`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from diagnostics.errors import UsageError
from diagnostics.tuning.changes import Setting, SettingValue, WarmupChange
from diagnostics.tuning.pbtxt import (
    Field,
    ListValue,
    Scalar,
    TextMessage,
    Value,
    add_field,
    add_item,
    parse,
    quote,
    remove_field,
    remove_item,
    replace_value,
)

_BOOLEANS = {"True": "true", "t": "true", "False": "false", "f": "false"}


@dataclass(slots=True, kw_only=True)
class Draft:
    """The text under change. `path` names it in messages; `notes` gather what the reader must know."""

    text: str
    path: str
    notes: list[str] = field(default_factory=list)

    @property
    def root(self) -> TextMessage:
        return parse(self.text, self.path)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def literal(value: SettingValue) -> str:
    """Return how text format writes a value of a scalar field or of a list of them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[ " + ", ".join(map(str, value)) + " ]"
    return str(value)


def set_field(draft: Draft, parent: TextMessage, name: str, written: str, path: str) -> None:
    """Give a field one value: replace the first occurrence, remove the others, or add it."""
    present = parent.all(name)
    if not present:
        separator = " " if written.startswith("{") else ": "
        draft.text = add_field(draft.text, parent, f"{name}{separator}{written}")
        return
    if _same(present, written):
        return
    for other in reversed(present[1:]):
        draft.text = remove_field(draft.text, other)
    note_templates(draft, present, path, written)
    value = present[0].value
    colon = "" if present[0].colon or written.startswith("{") else ": "
    draft.text = replace_value(draft.text, value, colon + written)


def _same(present: tuple[Field, ...], written: str) -> bool:
    """Say whether fields already hold what would be written, however they are spelled."""
    wanted = parse(f"x: {written}").fields
    return [_meaning(v) for f in present for v in f.values()] == [_meaning(v) for f in wanted for v in f.values()]


def _meaning(value: Value) -> object:
    if isinstance(value, Scalar):
        number = value.integer()
        return _BOOLEANS.get(value.value, value.value) if number is None else number
    if isinstance(value, ListValue):
        return [_meaning(item) for item in value.items]
    return [(f.name, [_meaning(v) for v in f.values()]) for f in value.fields]


def note_templates(draft: Draft, fields: tuple[Field, ...], path: str, written: str) -> None:
    """Note the template fields that hold what is about to be overwritten: theirs is the place to change."""
    names = [name for f in fields for name in _templates(f.value)]
    value = written.strip('[]" ')
    for name in dict.fromkeys(names):
        draft.note(
            f"{path} is filled from the template field ${{{name}}}: give {name} the value {value} there, "
            "or the next fill loses this change"
        )


def _templates(value: Value) -> tuple[str, ...]:
    if isinstance(value, Scalar):
        return value.templates
    if isinstance(value, ListValue):
        return tuple(name for item in value.items for name in _templates(item))
    return tuple(name for f in value.fields for name in _templates(f.value))


def remove_all(draft: Draft, parent: TextMessage, name: str, path: str) -> None:
    """Remove every field of this name."""
    present = parent.all(name)
    note_templates(draft, present, path, "none")
    for old in reversed(present):
        draft.text = remove_field(draft.text, old)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    name: str
    data_type: str
    dims: tuple[str, ...]


def missing_warmups(root: TextMessage, wanted: WarmupChange, path: str) -> tuple[list[str], list[str]]:
    """Return blocks for the batch sizes that `root` does not warm up yet, and notes for the reader.

    Inputs have zero data in the configuration's own dimensions; -1 becomes 1. No blocks are returned when the
    configuration does not state its inputs.
    """
    sizes = sorted(set(wanted.batch_sizes) - _covered(root))
    inputs = _inputs(root)
    if sizes and not inputs:
        return [], [f"{path} does not state the model's inputs: write the warm-up samples by hand"]
    notes = []
    if sizes and any("-1" in item.dims for item in inputs):
        notes.append("dimensions of -1 are warmed up as 1: give the sizes that requests have")
    return [_sample(size, inputs) for size in sizes], notes


def _covered(root: TextMessage) -> set[int]:
    """Return the batch sizes of the samples that are there; an absent size means a single element."""
    sizes = (sample.scalar("batch_size") for sample in root.messages("model_warmup"))
    return {max((size.integer() or 1) if size else 1, 1) for size in sizes}


def _inputs(root: TextMessage) -> list[_Input]:
    """Return the inputs that a request must have."""
    found = []
    for block in root.messages("input"):
        name, data_type, optional = (block.scalar(key) for key in ("name", "data_type", "optional"))
        dims = tuple(v.text for f in block.all("dims") for v in f.values() if isinstance(v, Scalar))
        if name and data_type and not (optional and optional.value in ("true", "True", "t", "1")):
            found.append(_Input(name=name.value, data_type=data_type.text, dims=dims))
    return found


def _sample(size: int, inputs: list[_Input]) -> str:
    """Return a sample's block: in one line with one input, else with a line for each."""
    head, blocks = f"name: {quote(f'batch {size}')} batch_size: {size}", [_input_block(item) for item in inputs]
    if len(blocks) == 1:
        return f"{{ {head} {blocks[0]} }}"
    return "\n  ".join((f"{{ {head}", *blocks)) + "\n}"


def _input_block(item: _Input) -> str:
    dims = ", ".join("1" if dim.replace(" ", "") == "-1" else dim for dim in item.dims)
    value = f"data_type: {item.data_type} dims: [ {dims} ] zero_data: true"
    return f"inputs {{ key: {quote(item.name)} value {{ {value} }} }}"


_GROUP = "instance_group"
_BATCHING = "dynamic_batching"
# Measured on 2.51: with any queue policy set, payloads are not prefetched and a wake-up can be lost.
_QUEUE_POLICY_NOTE = (
    "a queue policy turns off prefetching: the batcher can then sleep up to 500 ms, "
    "or until the next request, with work waiting and instances idle"
)
ORDER_OR_DELAY = frozenset({f"{_BATCHING}.preserve_ordering", f"{_BATCHING}.default_queue_policy.timeout_action"})
_OTHER_SCHEDULERS = ("sequence_batching", "ensemble_scheduling")


def apply(draft: Draft, setting: Setting) -> None:
    """Write one setting into the draft; nothing changes where the file already says so.

    Raises:
        UsageError: the model's scheduler does not allow the setting.
        MalformedBody: the text is not text format.

    """
    head = setting.path.partition(".")[0]
    if setting.path in _WHOLE:
        _WHOLE[setting.path](draft, setting.value)
    elif head == "parameters":
        _parameter(draft, setting.path.partition(".")[2], setting.value)
    else:
        _block_setting(draft, setting)


def _block_setting(draft: Draft, setting: Setting) -> None:
    before = draft.text
    if setting.path.startswith(_BATCHING) and setting.value is not None:
        _schedulable(draft, _BATCHING)
    _scalar(draft, setting.path, setting.value)
    if draft.text != before and "default_queue_policy." in setting.path and setting.value:
        draft.note(_QUEUE_POLICY_NOTE)


def refuse_unfitting_sizes(draft: Draft) -> None:
    """Refuse preferred batch sizes that the model would not load with.

    Raises:
        UsageError: one of them exceeds the file's `max_batch_size`.

    """
    most = draft.root.scalar("max_batch_size")
    limit = 0 if most is None else most.integer()
    sizes = [v.integer() for f in _preferred(draft.root) for v in f.values() if isinstance(v, Scalar)]
    largest = max((size for size in sizes if size is not None), default=0)
    if limit is not None and largest > limit:
        raise UsageError(
            f"preferred_batch_size {largest} exceeds max_batch_size {limit}",
            where=draft.path,
            hint="raise max_batch_size in the same change, or prefer smaller batches",
        )


def refuse_late_out_of_order(draft: Draft) -> None:
    """Refuse a queue policy that Triton does not load beside kept order ("Poll failed for model directory").

    Raises:
        UsageError: responses keep their order, and requests past their timeout are delayed.

    """
    for block in draft.root.messages(_BATCHING):
        kept = block.scalar("preserve_ordering")
        actions = [policy.scalar("timeout_action") for policy in block.messages("default_queue_policy")]
        if kept is not None and _is_true(kept) and any(action and action.text == "DELAY" for action in actions):
            raise UsageError(
                "timeout_action DELAY is not allowed beside preserve_ordering",
                where=draft.path,
                hint="reject requests past their timeout, or let responses overtake each other",
            )


def _is_true(flag: Scalar) -> bool:
    return flag.value in ("true", "True", "t", "1")


def _schedulable(draft: Draft, what: str) -> None:
    for scheduler in _OTHER_SCHEDULERS:
        if draft.root.all(scheduler):
            raise UsageError(
                f"{what} is not allowed beside {scheduler}", where=draft.path, hint="change the member model"
            )


def _scalar(draft: Draft, path: str, value: SettingValue) -> None:
    """Set a field below zero or more single blocks; blocks that are missing are added."""
    *blocks, name = path.split(".")
    parent = draft.root
    for depth, block in enumerate(blocks):
        inner = parent.messages(block)
        if not inner:
            if value is not None:
                set_field(draft, parent, block, _nested([*blocks[depth + 1 :], name], value), path)
            return
        parent = inner[-1]
    if value is None:
        remove_all(draft, parent, name, path)
    else:
        set_field(draft, parent, name, literal(value), path)


def _nested(names: list[str], value: SettingValue) -> str:
    name, *rest = names
    return f"{{ {name}: {literal(value)} }}" if not rest else f"{{ {name} {_nested(rest, value)} }}"


def _max_batch_size(draft: Draft, value: SettingValue) -> None:
    before = draft.text
    _scalar(draft, "max_batch_size", value)
    if draft.text == before:
        return
    sizes = [v.integer() for f in _preferred(draft.root) for v in f.values() if isinstance(v, Scalar)]
    fitting = tuple(size for size in sizes if size is not None and isinstance(value, int) and size <= value)
    if len(fitting) < len([size for size in sizes if size is not None]):
        _scalar(draft, f"{_BATCHING}.preferred_batch_size", fitting or None)
        draft.note("preferred batch sizes above max_batch_size are dropped: the model would not load with them")
    draft.note("an ensemble's max_batch_size may not exceed the smallest of its members'")


def _preferred(root: TextMessage) -> tuple[Field, ...]:
    return tuple(f for block in root.messages(_BATCHING) for f in block.all("preferred_batch_size"))


def _dynamic_batching(draft: Draft, value: SettingValue) -> None:
    root = draft.root
    if value is None:
        remove_all(draft, root, _BATCHING, _BATCHING)
    elif not root.all(_BATCHING):
        _schedulable(draft, _BATCHING)
        draft.text = add_field(draft.text, root, f"{_BATCHING} {{ }}")


def _instances(draft: Draft, value: SettingValue) -> None:
    """Set the count of every group that serves; passive groups only wait."""
    _schedulable_instances(draft)
    groups = draft.root.messages(_GROUP)
    active = [index for index, group in enumerate(groups) if not _is_passive(group)]
    if not active:
        _add_group(draft, value)
        return
    if len(groups) > 1:
        kept = "" if len(active) == len(groups) else "; passive groups are left as they are"
        draft.note(f"the count applies to each of the {len(active)} active instance groups{kept}")
    for index in active:
        group = draft.root.messages(_GROUP)[index]
        gpus = [v for f in group.all("gpus") for v in f.values()]
        if len(gpus) > 1:
            draft.note(f"the count is per GPU, and the group lists {len(gpus)} of them")
        set_field(draft, group, "count", literal(value), f"{_GROUP}.count")


def _rate_limiter(draft: Draft, _: SettingValue) -> None:
    """Take the rate limiter out of every group: what it needs of resources, and its priority."""
    for index in range(len(draft.root.messages(_GROUP))):
        remove_all(draft, draft.root.messages(_GROUP)[index], "rate_limiter", f"{_GROUP}.rate_limiter")


def _schedulable_instances(draft: Draft) -> None:
    if draft.root.all("ensemble_scheduling"):
        raise UsageError(
            "an ensemble has no instances", where=draft.path, hint="change the count of the member that waits"
        )


def _is_passive(group: TextMessage) -> bool:
    flag = group.scalar("passive")
    return flag is not None and _is_true(flag)


def _add_group(draft: Draft, value: SettingValue) -> None:
    written = f"{{ count: {literal(value)} }}"
    lists = [f.value for f in draft.root.all(_GROUP) if isinstance(f.value, ListValue)]
    held = [v for items in lists for v in items.items if isinstance(v, Scalar)]
    if held:
        note_templates(draft, draft.root.all(_GROUP), f"{_GROUP}.count", literal(value))
        draft.text = replace_value(draft.text, held[0], written)
    elif lists:
        draft.text = add_item(draft.text, lists[-1], written)
    else:
        draft.text = add_field(draft.text, draft.root, f"{_GROUP} [{written}]")


def _version_policy(draft: Draft, value: SettingValue) -> None:
    root = draft.root
    if value is None:
        remove_all(draft, root, "version_policy", "version_policy")
        return
    kind, _, numbers = str(value).partition(":")
    inner = {
        "all": "all { }",
        "latest": f"latest {{ num_versions: {numbers} }}",
        "specific": f"specific {{ versions: [ {numbers.replace(',', ', ')} ] }}",
    }[kind]
    set_field(draft, root, "version_policy", f"{{ {inner} }}", "version_policy")


def _model_warmup(draft: Draft, value: SettingValue) -> None:
    if not isinstance(value, WarmupChange):
        remove_all(draft, draft.root, "model_warmup", "model_warmup")
        return
    written, notes = missing_warmups(draft.root, value, draft.path)
    for note in notes:
        draft.note(note)
    for sample in written:
        draft.text = add_field(draft.text, draft.root, f"model_warmup [{sample}]")


def _parameter(draft: Draft, key: str, value: SettingValue) -> None:
    """Set one entry of the map `parameters`, written as repeated fields or as a list."""
    for parent in draft.root.all("parameters"):
        for index, entry in enumerate(parent.values()):
            name = entry.scalar("key") if isinstance(entry, TextMessage) else None
            if name is not None and name.value == key and isinstance(entry, TextMessage):
                _set_parameter(draft, parent, index, entry, key, value)
                return
    if value is not None:
        block = f"parameters {{ key: {quote(key)} value {{ string_value: {quote(str(value))} }} }}"
        draft.text = add_field(draft.text, draft.root, block)


def _set_parameter(draft: Draft, parent: Field, index: int, entry: TextMessage, key: str, value: SettingValue) -> None:
    path = f"parameters.{key}"
    if value is None:
        note_templates(draft, entry.all("value"), path, "none")
        in_list = isinstance(parent.value, ListValue) and len(parent.value.items) > 1
        if in_list and isinstance(parent.value, ListValue):
            draft.text = remove_item(draft.text, parent.value, index)
        else:
            draft.text = remove_field(draft.text, parent)
        return
    holders = entry.messages("value")
    if holders:
        set_field(draft, holders[-1], "string_value", quote(str(value)), path)
    else:
        draft.text = add_field(draft.text, entry, f"value {{ string_value: {quote(str(value))} }}")


_WHOLE: Mapping[str, Callable[[Draft, SettingValue], None]] = {
    "max_batch_size": _max_batch_size,
    f"{_GROUP}.count": _instances,
    f"{_GROUP}.rate_limiter": _rate_limiter,
    _BATCHING: _dynamic_batching,
    "version_policy": _version_policy,
    "model_warmup": _model_warmup,
}
