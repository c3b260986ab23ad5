"""A change is tried on one server: applied, measured, and taken back unless the measurement confirms it.

The server's model repository is never written. A configuration is given with the request that loads the model (Triton
core, model control mode explicit); a restart, or a load without one, goes back to what the repository holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from diagnostics.errors import CollectError, DiagError, UsageError, not_installed
from diagnostics.forecast.verify import Measure, Verification, Verified
from diagnostics.tuning.changes import ConfigChange, is_build_option
from diagnostics.tuning.patch import edited


class ModelControl(Protocol):
    """What loads models of one server."""

    def config(self, model: str) -> bytes:
        """Return the configuration that is served, as JSON."""

    def load(self, model: str, config: bytes) -> None:
        """Load a model with this configuration instead of its file's; returns when it is ready."""


class CanaryOutcome(StrEnum):
    """What became of a change."""

    KEPT = "kept"
    TAKEN_BACK = "taken back"
    STRANDED = "not taken back"


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryResult:
    """How a trial ended.

    Attributes:
        outcome: what became of the change.
        reason: why, one sentence without a full stop.
        verification: what was measured against what was predicted; None where it came to no second window.
        interrupted: whether the user ended it.

    """

    outcome: CanaryOutcome
    reason: str
    verification: Verification | None = None
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A trial.

    Attributes:
        control: of the server.
        changes: what is tried, one a model.
        measure: reads a window of so many seconds and holds it against the one before the change.
        seconds: of the first window that is read.
        longest: seconds that a window may take where a shorter one decides nothing.
        report: is given a sentence for every step.

    """

    control: ModelControl
    changes: Sequence[ConfigChange]
    measure: Callable[[float], Verification]
    seconds: float
    longest: float
    report: Callable[[str], None]

    def run(self) -> CanaryResult:
        """Apply the changes, measure, and take them back unless latency fell as was predicted, or more.

        Raises:
            CollectError: a configuration cannot be read; nothing was applied.
            UsageError: a change cannot be made of it; nothing was applied.

        """
        served = {change.model: self.control.config(change.model) for change in self.changes}
        wanted = {change.model: changed_config(served[change.model], change) for change in self.changes}
        found, applied = None, list[str]()
        try:
            for change in self.changes:
                applied.append(change.model)
                self.control.load(change.model, wanted[change.model])
                self._refuse_other_config(change)
                self.report(f"applied to {change.model}")
            found = self._measured()
        except KeyboardInterrupt:
            return self._taken_back(applied, served, "it was interrupted", interrupted=True)
        except Exception as error:  # noqa: BLE001 - whatever broke, the server must not keep what nobody measured
            reason = str(error) if isinstance(error, DiagError) else "the second window was not read"
            return self._taken_back(applied, served, reason)
        refusal = why_not_kept(found)
        if refusal:
            return self._taken_back(applied, served, refusal, found)
        return CanaryResult(outcome=CanaryOutcome.KEPT, reason=found.judgement.reason, verification=found)

    def _refuse_other_config(self, change: ConfigChange) -> None:
        """Refuse to measure what is not there: a server may answer that it loaded, and serve what it served.

        Raises:
            CollectError: the configuration that is served now is not as the change makes it.

        """
        served = self.control.config(change.model)
        if changed_config(served, change) != changed_config(served, replace(change, settings=())):
            raise CollectError("the server answered that it was loaded, but serves other settings", where=change.model)

    def _measured(self) -> Verification:
        """Return what a window shows; of a longer one, where that is what it takes."""
        found = self.measure(self.seconds)
        needed = found.judgement.seconds_needed
        if found.judgement.verdict is Verified.INCONCLUSIVE and needed is not None and needed <= self.longest:
            self.report(f"not decided yet: {found.judgement.reason}")
            return self.measure(needed)
        return found

    def _taken_back(
        self,
        applied: Sequence[str],
        served: Mapping[str, bytes],
        reason: str,
        found: Verification | None = None,
        *,
        interrupted: bool = False,
    ) -> CanaryResult:
        """Load what was served before, the last model first. Whatever fails, the others are taken back, too."""
        outcome = CanaryOutcome.TAKEN_BACK
        for model in reversed(applied):
            try:
                self.control.load(model, served[model])
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the next one is taken back all the same
                outcome = CanaryOutcome.STRANDED
                done = f"could not take it back from {model}: {str(error) or 'interrupted'}"
            else:
                done = f"took it back from {model}"
            with contextlib.suppress(OSError):  # whoever read of it is gone
                self.report(done)
        return CanaryResult(outcome=outcome, reason=reason, verification=found, interrupted=interrupted)


def why_not_kept(found: Verification) -> str:
    """Return why a measured change is not kept; empty where it is.

    It is kept where the mean certainly fell, and nothing is worse than was predicted: a forecast that was too cautious
    is no reason to take back what helps.
    """
    if found.judgement.verdict is Verified.INCONCLUSIVE:
        return f"the prediction is inconclusive: {found.judgement.reason}"
    worse = [one for one in found.measures if _worse_than_predicted(one)]
    if worse:
        return f"the prediction of its {worse[0].statistic} is refuted: {worse[0].judgement.reason}"
    mean = next((one for one in found.measures if one.statistic == "mean"), None)
    return "" if mean is not None and _fell(mean) else "the mean latency did not certainly fall"


def _worse_than_predicted(one: Measure) -> bool:
    return one.judgement.verdict is Verified.REFUTED and one.after.value > one.predicted.value


def _fell(mean: Measure) -> bool:
    """Whether the mean is certainly below what the old settings would do; where they could not keep up, did."""
    then = mean.unchanged or mean.before
    return then is None or (mean.after.high is not None and mean.after.high < then.value)


def changed_config(served: bytes, change: ConfigChange) -> bytes:
    """Return a served configuration, JSON, with a change.

    Raises:
        CollectError: it has fields that the installed tritonclient does not know, which would be lost.
        UsageError: the extra `grpc` is missing, or the model's scheduler does not allow the change.

    """
    if any(is_build_option(setting.path) for setting in change.settings):
        raise UsageError("the engine has to be built again, which cannot be tried", where=change.model)
    try:
        from google.protobuf import json_format, text_format
        from tritonclient.grpc.model_config_pb2 import ModelConfig
    except ModuleNotFoundError as error:
        raise not_installed(error, "grpc", where="diag apply") from None
    try:
        message = json_format.Parse(served, ModelConfig())
    except (json_format.ParseError, ValueError, RecursionError) as error:
        hint = "install a tritonclient as new as the server"
        raise CollectError(f"its configuration cannot be read: {error}", where=change.model, hint=hint) from None
    text = edited(text_format.MessageToString(message), change)
    try:
        wanted = text_format.Parse(text, ModelConfig())
    except text_format.ParseError as error:
        raise UsageError(f"the change makes no configuration: {error}", where=change.model) from None
    return str(json_format.MessageToJson(wanted, preserving_proto_field_name=True, indent=None)).encode()
