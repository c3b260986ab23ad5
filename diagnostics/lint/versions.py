"""Versions of a model that its policy serves."""

from __future__ import annotations

from diagnostics.lint.model_folder import ModelFolder


def served(model: ModelFolder) -> frozenset[int] | None:
    """Return the versions that are there and that the policy serves; None when the policy is unknown.

    Source: `model_config.proto` (`ModelVersionPolicy`): the latest one when nothing is written. `latest { }` has
    protobuf's default of 0, and serves none: seen on Triton 2.51.
    """
    there = sorted(model.versions)
    policy = model.config.block("version_policy") if model.config else None
    if policy is None:
        left_out = model.config is None or model.config.has("version_policy") is False
        return frozenset(there[-1:]) if left_out else None
    specific, latest = policy.block("specific"), policy.block("latest")
    if specific is not None:
        listed = specific.integers("versions")
        return None if listed is None else frozenset(listed) & frozenset(there)
    if latest is not None:
        count = latest.integer("num_versions")
        return None if count is None else frozenset(there[-count:] if count > 0 else ())
    return frozenset(there) if policy.has("all") else None
