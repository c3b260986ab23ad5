"""Whatever the product suggests is a patch that can be read, applied, undone and applied twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.tuning.changes import KNOWN_PATHS, is_build_option
from diagnostics.tuning.patch import edited
from tests.tuning.suggested import Suggested, applied, of_the_benchmark, proto, suggested

# No check proposes these by itself; they are for whoever edits, and are tried by hand.
NOT_SUGGESTED = {
    "max_batch_size",
    "dynamic_batching.preferred_batch_size",
    "dynamic_batching.preserve_ordering",
    "dynamic_batching.default_queue_policy.default_timeout_microseconds",
    "dynamic_batching.default_queue_policy.allow_timeout_override",
    "dynamic_batching.default_queue_policy.timeout_action",
    "response_cache.enable",
}
EVERY = [one for one in (*suggested(), *of_the_benchmark()) if one.patch is not None]
IN_FILES = [one for one in EVERY if one.patch and one.patch.base == "file"]


def named(changes: list[Suggested]) -> list[object]:
    return [pytest.param(one, id=f"{number} {one.origin}") for number, one in enumerate(changes)]


def paths(changes: tuple[Suggested, ...]) -> set[str]:
    return {path for one in changes for path in one.shape.paths}


def test_every_kind_of_change_is_made_by_a_check_or_tried_by_hand() -> None:
    by_checks = tuple(one for one in suggested() if not one.origin.startswith("by hand"))

    engine = {"engine.max_num_tokens", "engine.max_input_len", "engine.max_seq_len", "engine.max_beam_width"}
    assert paths(by_checks) == KNOWN_PATHS - NOT_SUGGESTED - engine
    assert paths(suggested()) == KNOWN_PATHS - engine


def test_the_drawn_incidents_bring_no_shape_that_is_not_tried_on_a_real_server() -> None:
    tried = {one.shape for one in suggested() if one.patch is not None}

    assert {one.shape for one in of_the_benchmark() if one.patch is not None} <= tried


def test_a_suggestion_without_a_patch_says_why() -> None:
    without = [one for one in (*suggested(), *of_the_benchmark()) if one.patch is None]

    assert all(one.note for one in without)
    assert all(is_build_option(p) or not proto(one.before).input for one in without for p in one.shape.paths)


@pytest.mark.parametrize("one", named(EVERY))
def test_a_patch_applies_as_it_says_and_changes_nothing_when_made_twice(one: Suggested, tmp_path: Path) -> None:
    after = one.after(tmp_path)

    assert proto(after) != proto(one.before)
    assert proto(edited(after, one.change)) == proto(after)


@pytest.mark.parametrize("one", named(IN_FILES))
def test_the_reverse_of_a_patch_brings_the_file_back(one: Suggested, tmp_path: Path) -> None:
    assert one.patch is not None
    path = f"{one.change.model}/config.pbtxt"

    assert applied(one.patch.text, one.after(tmp_path), tmp_path / "back", path, "-R") == one.before


@pytest.mark.parametrize("one", named(EVERY))
def test_a_patch_touches_nothing_that_it_was_not_told_to(one: Suggested, tmp_path: Path) -> None:
    before, after = proto(one.before), proto(one.after(tmp_path))
    for head in {setting.path.partition(".")[0] for setting in one.change.settings}:
        before.ClearField(head)
        after.ClearField(head)
    if any(setting.path == "max_batch_size" for setting in one.change.settings):
        before.ClearField("dynamic_batching")
        after.ClearField("dynamic_batching")

    assert after == before


def test_all_checks_are_walked() -> None:
    changing = {one.origin.rpartition(": ")[2] for one in EVERY} | {one.origin.split()[1].strip(":") for one in EVERY}

    assert {"single-instance-serialization", "cold-start", "version-regression"} <= changing & set(catalogue())
