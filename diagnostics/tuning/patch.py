"""A change as text to apply: a diff of the repository's file, or a fragment to paste."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from diagnostics.errors import UsageError
from diagnostics.tuning.changes import ConfigChange, Setting, WarmupChange, is_build_option
from diagnostics.tuning.draft import Draft
from diagnostics.tuning.fragment import context, fragment
from diagnostics.tuning.pbtxt import parse
from diagnostics.tuning.settings import ORDER_OR_DELAY, apply, refuse_late_out_of_order, refuse_unfitting_sizes
from diagnostics.wire.model_config import ModelConfig

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
