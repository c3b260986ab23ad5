"""The text of a configuration in effect, for fields that a change touches, where the file is not at hand."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from diagnostics.errors import UsageError
from diagnostics.tuning.changes import ConfigChange, Setting, WarmupChange, is_build_option
from diagnostics.tuning.config_edits import (
    ORDER_OR_DELAY,
    Draft,
    apply,
    refuse_late_out_of_order,
    refuse_unfitting_sizes,
)
from diagnostics.tuning.pbtxt import parse, quote
from diagnostics.wire.model_config import DynamicBatching, Input, InstanceGroup, LimiterResource, ModelConfig


def fragment(effective: ModelConfig, paths: Sequence[str]) -> str:
    """Return `config.pbtxt` text of the fields at these paths, without what the server has made up itself.

    The server completes a configuration: names of groups and a `preferred_batch_size` equal to
    `max_batch_size` are its own (Triton core, `model_config_utils.cc`).
    """
    heads = {path.partition(".")[0] for path in paths}
    lines = [writer(effective) for name, writer in _WRITERS.items() if name in heads]
    keys = [path.partition(".")[2] for path in paths if path.startswith("parameters.")]
    lines += [_parameter(effective, key) for key in keys]
    return "".join(f"{line}\n" for line in lines if line)


def other_scheduler(effective: ModelConfig) -> str:
    """Return the block of an ensemble or a sequence batcher, empty for other models."""
    if effective.ensemble_steps:
        return "ensemble_scheduling { }\n"
    return "sequence_batching { }\n" if effective.sequence_batching else ""


def context(effective: ModelConfig, *, warming: bool) -> str:
    """Return text that a change has to see and does not touch: the scheduler, and what warm-up samples are made of.

    `warming` says whether the change adds warm-up samples; those that are there are known without their inputs.
    """
    return other_scheduler(effective) + (_inputs(effective) + _warmups(effective) if warming else "")


def _inputs(effective: ModelConfig) -> str:
    return "".join(f"input [{_input(one)}]\n" for one in effective.inputs if re.fullmatch(r"TYPE_\w+", one.data_type))


def _input(one: Input) -> str:
    optional = " optional: true" if one.optional else ""
    dims = ", ".join(map(str, one.dims))
    return f"{{ name: {quote(one.name)} data_type: {one.data_type} dims: [ {dims} ]{optional} }}"


def _max_batch_size(effective: ModelConfig) -> str:
    return f"max_batch_size: {effective.max_batch_size}"


def _groups(effective: ModelConfig) -> str:
    groups = ", ".join(_group(group, effective.name) for group in effective.instance_groups)
    return f"instance_group [{groups}]" if groups else ""


def _group(group: InstanceGroup, model: str) -> str:
    parts = [f"count: {group.count}", f"kind: {group.kind}"]
    if group.name and not group.name.startswith(model):
        parts.insert(0, f"name: {quote(group.name)}")
    if group.gpus:
        parts.append(f"gpus: [ {', '.join(map(str, group.gpus))} ]")
    if group.passive:
        parts.append("passive: true")
    if group.resources or group.limiter_priority:
        parts.append(_rate_limiter(group))
    return f"{{ {' '.join(parts)} }}"


def _rate_limiter(group: InstanceGroup) -> str:
    parts = [f"resources [ {', '.join(map(_resource, group.resources))} ]"] if group.resources else []
    if group.limiter_priority:
        parts.append(f"priority: {group.limiter_priority}")
    return f"rate_limiter {{ {' '.join(parts)} }}"


def _resource(one: LimiterResource) -> str:
    return f"{{ name: {quote(one.name)} count: {one.count}{' global: true' if one.everywhere else ''} }}"


def _dynamic_batching(effective: ModelConfig) -> str:
    batching = effective.dynamic_batching
    if batching is None:
        return ""
    parts = " ".join((*_batching_parts(batching, effective.max_batch_size), *_policy_parts(batching)))
    return f"dynamic_batching {{ {parts} }}" if parts else "dynamic_batching { }"


def _batching_parts(batching: DynamicBatching, max_batch_size: int) -> list[str]:
    parts = []
    if batching.preferred_batch_sizes and batching.preferred_batch_sizes != (max_batch_size,):
        parts.append(f"preferred_batch_size: [ {', '.join(map(str, batching.preferred_batch_sizes))} ]")
    if batching.max_queue_delay_seconds:
        parts.append(f"max_queue_delay_microseconds: {round(batching.max_queue_delay_seconds * 1e6)}")
    if batching.preserve_ordering:
        parts.append("preserve_ordering: true")
    if batching.priority_levels:
        parts.append(f"priority_levels: {batching.priority_levels}")
    return parts


def _policy_parts(batching: DynamicBatching) -> list[str]:
    policy = batching.queue_policy
    parts = []
    if policy.timeout_action == "DELAY":
        parts.append("timeout_action: DELAY")
    if policy.default_timeout_seconds:
        parts.append(f"default_timeout_microseconds: {round(policy.default_timeout_seconds * 1e6)}")
    if policy.allow_timeout_override:
        parts.append("allow_timeout_override: true")
    if policy.max_queue_size:
        parts.append(f"max_queue_size: {policy.max_queue_size}")
    return [f"default_queue_policy {{ {' '.join(parts)} }}"] if parts else []


def _version_policy(effective: ModelConfig) -> str:
    kind, _, numbers = effective.version_policy.partition(":")
    inner = {"all": "all { }", "specific": f"specific {{ versions: [ {numbers} ] }}"}
    return f"version_policy {{ {inner.get(kind, f'latest {{ num_versions: {numbers or 1} }}')} }}"


def _response_cache(effective: ModelConfig) -> str:
    return "response_cache { enable: true }" if effective.response_cache else ""


def _parameter(effective: ModelConfig, key: str) -> str:
    if key not in effective.parameters:
        return ""
    return f"parameters {{ key: {quote(key)} value {{ string_value: {quote(effective.parameters[key])} }} }}"


def _warmups(effective: ModelConfig) -> str:
    samples = ", ".join(f"{{ name: {quote(w.name)} batch_size: {w.batch_size} }}" for w in effective.warmups)
    return f"model_warmup [{samples}]\n" if samples else ""


_WRITERS: Mapping[str, Callable[[ModelConfig], str]] = {
    "max_batch_size": _max_batch_size,
    "instance_group": _groups,
    "dynamic_batching": _dynamic_batching,
    "version_policy": _version_policy,
    "response_cache": _response_cache,
    "model_warmup": lambda effective: _warmups(effective).rstrip(),
}


MOST_COMPARED_LINES = 1000
"""Of a text that is compared line by line, which takes up to the square of them; configurations seen have 300."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """What to apply.

    Attributes:
        text: a unified diff that `patch -p1` applies in the model repository (base `file`), or
            `config.pbtxt` text
            to paste (base `effective`); empty when the configuration already says so or no file can hold it.
        base: what the text was made from: the file, or the configuration in effect.
        notes: what the reader must know before applying it, one sentence each.

    """

    text: str
    base: Literal["file", "effective"]
    notes: tuple[str, ...]


def patch(change: ConfigChange, *, file_text: str | None, path: str, effective: ModelConfig | None) -> Patch:
    """Return the change as a patch of `file_text`, or of the effective configuration where there is no file.

    `path` is the file's place below the repository, as in `safety/config.pbtxt`.

    Raises:
        MalformedBody: the file is not protobuf text format.
        UsageError: the model's scheduler does not allow a setting, or `path` cannot stand in a diff.

    """
    if "\n" in path or "\r" in path:
        raise UsageError(f"{path!r} cannot stand in a patch", hint="rename the file")
    notes = [_build_note(setting) for setting in change.settings if is_build_option(setting.path)]
    if file_text is not None:
        draft = _applied(file_text, change, path)
        return Patch(text=unified(file_text, draft.text, path), base="file", notes=(*draft.notes, *notes))
    draft = _from_effective(change, path, effective)
    return Patch(text=draft.text, base="effective", notes=(*draft.notes, *notes))


def edited(file_text: str, change: ConfigChange, path: str = "config.pbtxt") -> str:
    """Return the text of the file after the change; the same text when it already says so.

    Raises:
        MalformedBody: the file is not protobuf text format.
        UsageError: the model's scheduler does not allow a setting.

    """
    return _applied(file_text, change, path).text


def _applied(text: str, change: ConfigChange, path: str) -> Draft:
    draft = Draft(text=text, path=path)
    _ = draft.root  # a file that cannot be read is refused even where nothing is to change
    for setting in change.settings:
        if not is_build_option(setting.path):
            apply(draft, setting)
    if "max_batch_size" in _fields(draft.text, path) and _prefers(change):
        refuse_unfitting_sizes(draft)
    if any(setting.path in ORDER_OR_DELAY for setting in change.settings):
        refuse_late_out_of_order(draft)
    return draft


def _prefers(change: ConfigChange) -> bool:
    return any(setting.path == "dynamic_batching.preferred_batch_size" for setting in change.settings)


def _build_note(setting: Setting) -> str:
    option = setting.path.partition(".")[2]
    return f"{option} is built into the engine: build it again with --{option} {setting.value}"


def _from_effective(change: ConfigChange, path: str, effective: ModelConfig | None) -> Draft:
    """Edit the text of the fields in effect; the result is a fragment, and says so."""
    warming = any(isinstance(setting.value, WarmupChange) for setting in change.settings)
    paths = [s.path for s in change.settings if not isinstance(s.value, WarmupChange)]
    around = context(effective, warming=warming) if effective else ""
    before = fragment(effective, paths) if effective else ""
    draft = _applied(around + before, change, path)
    after = draft.text.removeprefix(around)
    held, kept = (_fields(text, path) for text in (before, after))
    removals = "".join(f"# Remove the field {name}.\n" for name in sorted(held - kept - {"parameters"}))
    removals += "".join(f"# Remove the parameter {key}.\n" for key in _removed_parameters(change, effective))
    draft.text = "" if after == before else _heading(path, kept) + removals + after
    return draft


def _removed_parameters(change: ConfigChange, effective: ModelConfig | None) -> list[str]:
    held = effective.parameters if effective else {}
    keys = [s.path.partition(".")[2] for s in change.settings if s.path.startswith("parameters.") and s.value is None]
    return [key for key in keys if key in held]


def _fields(text: str, path: str) -> set[str]:
    return {field.name for field in parse(text, path).fields}


def _heading(path: str, kept: set[str]) -> str:
    """Say where a fragment comes from and where it goes: not every field takes the place of what is there."""
    added = {
        "parameters": "# A parameter takes the place of the one with the same key.\n",
        "model_warmup": "# Warm-up samples are added to those that are there.\n",
    }
    return (
        f"# A fragment for {path}, made from the configuration in effect: the file was not at hand.\n"
        + ("# Put these fields in the place of those with the same name, or add them.\n" if kept - set(added) else "")
        + "".join(text for name, text in added.items() if name in kept)
    )


def unified(before: str, after: str, path: str) -> str:
    """Return a unified diff that `patch` and `git apply` take, empty for equal texts."""
    # A name with a space ends at a tab; otherwise `patch` would take its first word.
    end = "\t" if " " in path else ""
    old, new, names = _lines(before), _lines(after), (f"a/{path}{end}", f"b/{path}{end}")
    whole = max(len(old), len(new)) <= MOST_COMPARED_LINES
    lines = difflib.unified_diff(old, new, *names) if whole else _one_hunk(old, new, *names)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def changed_lines(old: Sequence[str], new: Sequence[str]) -> tuple[int, int, int]:
    """Return where two texts begin to differ, and where in each they end to; in time linear in their length."""
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    alike = next((at for at in range(shorter - start) if old[-1 - at] != new[-1 - at]), shorter - start)
    return start, len(old) - alike, len(new) - alike


def _one_hunk(old: Sequence[str], new: Sequence[str], old_name: str, new_name: str) -> Iterator[str]:
    """Yield a diff of one hunk, with the usual three lines around it."""
    start, old_end, new_end = changed_lines(old, new)
    if (start, start) == (old_end, new_end):
        return
    first, more = max(start - 3, 0), old[old_end : old_end + 3]
    yield f"--- {old_name}\n"
    yield f"+++ {new_name}\n"
    yield f"@@ -{first + 1},{old_end + len(more) - first} +{first + 1},{new_end + len(more) - first} @@\n"
    yield from (f" {line}" for line in old[first:start])
    yield from (f"-{line}" for line in old[start:old_end])
    yield from (f"+{line}" for line in new[start:new_end])
    yield from (f" {line}" for line in more)


def _lines(text: str) -> list[str]:
    """Split at line feeds only: a carriage return belongs to its line, other separators are characters."""
    return re.findall(r"[^\n]+\n?|\n", text)
