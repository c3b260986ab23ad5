"""Whatever the product suggests is a patch that can be read, applied, undone and applied twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.tuning.changes import KNOWN_PATHS, is_build_option
from diagnostics.tuning.patch import edited
from tests.benchmark.replayed import LABELS, suggested_for
from tests.tuning.suggested import (
    BY_HAND,
    CAPTURES,
    CASES,
    ORIGINS,
    STORIES,
    Suggested,
    applied,
    proto,
    suggested,
    suggested_by,
)

# No check proposes these by itself; they are for whoever edits, and are tried by hand.
NOT_SUGGESTED = {
    "dynamic_batching.default_queue_policy.max_queue_size",
    "max_batch_size",
    "dynamic_batching.preferred_batch_size",
    "dynamic_batching.preserve_ordering",
    "dynamic_batching.default_queue_policy.default_timeout_microseconds",
    "dynamic_batching.default_queue_policy.allow_timeout_override",
    "dynamic_batching.default_queue_policy.timeout_action",
    "response_cache.enable",
    "instance_group.rate_limiter",
}
each_origin = pytest.mark.parametrize("origin", [*ORIGINS, *LABELS])


def of(origin: str) -> tuple[Suggested, ...]:
    return suggested_for(origin) if origin in LABELS else suggested_by(origin)


def patched(origin: str) -> list[Suggested]:
    return [one for one in of(origin) if one.patch is not None]


def paths(changes: tuple[Suggested, ...]) -> set[str]:
    return {path for one in changes for path in one.shape.paths}


def test_every_kind_of_change_is_made_by_a_check_or_tried_by_hand() -> None:
    by_checks = tuple(one for origin in (CASES, *STORIES, *CAPTURES) for one in of(origin))

    engine = {path for path in KNOWN_PATHS if path.startswith("engine.")} - {"engine.max_batch_size"}
    assert paths(by_checks) == KNOWN_PATHS - NOT_SUGGESTED - engine
    assert paths((*by_checks, *of(BY_HAND))) == KNOWN_PATHS - engine


def test_the_drawn_incidents_bring_no_shape_that_is_not_tried_on_a_real_server() -> None:
    tried = {one.shape for one in suggested() if one.patch is not None}
    drawn = {one.shape for name in LABELS for one in patched(name)}

    assert drawn
    assert drawn <= tried


def test_a_suggestion_without_a_patch_says_why() -> None:
    without = [one for origin in (*ORIGINS, *LABELS) for one in of(origin) if one.patch is None]

    assert without
    assert all(one.note for one in without)
    assert all(is_build_option(p) or not proto(one.before).input for one in without for p in one.shape.paths)


@each_origin
def test_a_patch_changes_what_it_says_once_and_its_reverse_brings_the_file_back(origin: str, tmp_path: Path) -> None:
    for number, one in enumerate(patched(origin)):
        assert one.patch is not None
        text = one.after(tmp_path / str(number))
        before, after = proto(one.before), proto(text)

        assert after != before, one.origin
        assert proto(edited(text, one.change)) == after, one.origin
        if one.patch.base == "file":
            path = f"{one.change.model}/config.pbtxt"
            assert applied(one.patch.text, text, tmp_path / f"{number} back", path, "-R") == one.before, one.origin
        for head in {setting.path.partition(".")[0] for setting in one.change.settings}:
            before.ClearField(head)
            after.ClearField(head)
        if any(setting.path == "max_batch_size" for setting in one.change.settings):
            before.ClearField("dynamic_batching")
            after.ClearField("dynamic_batching")

        assert after == before, one.origin


def test_all_checks_are_walked() -> None:
    every = [one for origin in (*ORIGINS, *LABELS) for one in patched(origin)]
    changing = {one.origin.rpartition(": ")[2] for one in every} | {one.origin.split()[1].strip(":") for one in every}

    assert {"single-instance-serialization", "cold-start", "version-regression"} <= changing & set(catalogue())
    assert {"file", "effective"} == {one.patch.base for one in every if one.patch}
