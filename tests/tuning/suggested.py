"""Every change of a configuration that the product suggests, with the configuration that it is suggested for.

They come from the cases of the checks, the stories of `tests/incidents` and the recorded incidents; kinds of settings
and shapes of models that none of these has are written by hand.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Fires
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.tuning.changes import ENGINE_BACKENDS, ConfigChange
from diagnostics.tuning.patch import Patch, patch
from diagnostics.wire.capture import open_capture
from diagnostics.wire.model_config import ModelConfig, parse_model_config
from diagnostics.wire.records import BodyKind, Scrape
from tests.captures.recorded import FOLDER, explanation_of
from tests.checks.stated import decided
from tests.incidents.story import stories
from tests.tuning.shapes import CASE_BATCHING, CASE_PLAIN, IN_EFFECT, IN_FILES

Proto = model_config_pb2.ModelConfig


class Shape(NamedTuple):
    """What of a change and its model decides how the patch is written; `model` is what matters to its first setting."""

    paths: tuple[str, ...]
    base: str | None
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """A change, its patch (None where none could be made, with the advice's note), and the text it is for."""

    origin: str
    change: ConfigChange
    patch: Patch | None
    note: str
    before: str

    @property
    def shape(self) -> Shape:
        """What is alike in changes that are written alike."""
        paths = tuple(re.sub(r"^parameters\..*", "parameters.KEY", s.path) for s in self.change.settings)
        removes = " removed" if all(s.value is None for s in self.change.settings) else ""
        model = _matters(paths[0], proto(self.before)) + removes
        return Shape(paths=paths, base=self.patch.base if self.patch else None, model=model)

    def after(self, folder: Path) -> str:
        """Return the configuration with the patch applied as its reader is told to: by `patch -p1`, or pasted."""
        assert self.patch is not None
        if self.patch.base == "effective":
            return pasted(self.before, self.patch.text)
        return applied(self.patch.text, self.before, folder, f"{self.change.model}/config.pbtxt")


def _matters(path: str, config: Proto) -> str:
    scheduler = "sequence" if config.HasField("sequence_batching") else ""
    streams = "decoupled" if config.model_transaction_policy.decoupled else ""
    engine = "engine" if (config.backend or config.platform) in ENGINE_BACKENDS else ""
    match path.partition(".")[0]:
        case "instance_group":
            groups = (f"{g.Kind.Name(g.kind)}{'s' * (len(g.gpus) > 1)}{'-' * g.passive}" for g in config.instance_group)
            facts = (scheduler, streams, engine, *groups)
        case "model_warmup":
            dimension = "" if config.max_batch_size else "no batches"
            facts = (
                scheduler,
                streams,
                dimension,
                f"{len(config.model_warmup)} there",
                *{i.name for i in config.input},
            )
        case "dynamic_batching":
            facts = (streams, engine, f"policy {config.dynamic_batching.HasField('default_queue_policy')}")
        case _:
            facts = (engine,)
    return " ".join(sorted(filter(None, facts)))


def proto(text: str) -> Proto:
    """Parse as Triton does, template fields filled."""
    return text_format.Parse(re.sub(r"\$\{[^}]*\}", "7", text), Proto())


def applied(diff: str, before: str, folder: Path, path: str, *options: str) -> str:
    """Apply a diff by `patch -p1` and return the file."""
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(before.encode())
    subprocess.run(["patch", "-p1", "-s", *options], input=diff.encode(), cwd=folder, check=True, timeout=30)
    return target.read_bytes().decode()


def pasted(before: str, fragment: str) -> str:
    """Do with a fragment what its heading says; parameters and warm-up samples are added to those that are there."""
    config, added = proto(before), text_format.Parse(fragment, Proto())
    for name in re.findall(r"^# Remove the field (\w+)\.$", fragment, re.MULTILINE):
        config.ClearField(name)
    for key in re.findall(r"^# Remove the parameter (.+)\.$", fragment, re.MULTILINE):
        del config.parameters[key]
    for field, _ in added.ListFields():
        if field.name not in ("parameters", "model_warmup"):
            config.ClearField(field.name)
    config.MergeFrom(added)
    return text_format.MessageToString(config)


CASES, BY_HAND = "cases", "by hand"
STORIES = {f"incident {story.name}": story for story in stories()}
CAPTURES = {f"captures {path.name.partition('.')[0]}": path for path in sorted(FOLDER.glob("*.tar.xz"))}
# Where the changes come from; which there are, no one knows before the window was diagnosed.
ORIGINS = (CASES, *STORIES, *CAPTURES, BY_HAND)


def suggested() -> tuple[Suggested, ...]:
    """Return the changes of the cases, the stories, the recorded incidents, and those by hand."""
    return tuple(one for origin in ORIGINS for one in suggested_by(origin))


@cache
def suggested_by(origin: str) -> tuple[Suggested, ...]:
    """Return the changes of one origin."""
    if origin == CASES:
        return tuple(_of_cases())
    if origin == BY_HAND:
        return tuple(by_hand())
    story = STORIES.get(origin)
    scrapes = story.scene.scrapes() if story else tuple(open_capture(CAPTURES[origin]).scrapes())
    return tuple(of_explanation(origin, scrapes, explanation_of(scrapes)))


def _of_cases() -> Iterator[Suggested]:
    for check in catalogue().values():
        for case in check.cases:
            outcome, _ = decided(check, case.readings)
            change = outcome.suggestion.change if isinstance(outcome, Fires) and outcome.suggestion else None
            if change is not None:
                adds = any(s.path == "dynamic_batching" and s.value for s in change.settings)
                text = CASE_PLAIN if adds else CASE_BATCHING
                yield _made(f"case {check.id}: {case.title}", replace(change, model="model"), text, None)


def of_explanation(origin: str, scrapes: Sequence[Scrape], explanation: Explanation) -> Iterator[Suggested]:
    """Yield what the explanation of these scrapes suggests."""
    bodies = {(s.server, s.name): s.body for s in scrapes if s.kind is BodyKind.CONFIG and s.body}
    for finding in explanation.findings:
        change = finding.suggestion.change if finding.suggestion else None
        if change is None:
            continue
        file = explanation.evidence.config_file(finding.subject)
        body = bodies[finding.subject.server, change.model]
        reported = finding.advice
        assert reported is not None
        text = file if file is not None else effective_text(body)
        yield Suggested(
            origin=f"{origin}: {finding.check}", change=change, patch=reported.patch, note=reported.note, before=text
        )


def effective_text(body: bytes) -> str:
    """Return a file that says what the server's configuration in effect says."""
    return text_format.MessageToString(json_format.ParseDict(json.loads(body), Proto(), ignore_unknown_fields=True))


def by_hand() -> Iterator[Suggested]:
    """Yield what no window of ours brings about: by the file, and by the configuration in effect."""
    for title, text, change in IN_FILES:
        yield _made(f"by hand: {title}", change, text, None)
    for title, text, change in IN_EFFECT:
        body = json_format.MessageToJson(proto(text), preserving_proto_field_name=True).encode()
        yield _made(f"by hand, in effect: {title}", change, effective_text(body), parse_model_config(body))


def _made(origin: str, change: ConfigChange, text: str, effective: ModelConfig | None) -> Suggested:
    """Return the patch of a file, or, with the configuration in effect, of that."""
    made = patch(
        change,
        file_text=None if effective else text,
        path=f"{change.model}/config.pbtxt",
        effective=effective,
    )
    return Suggested(
        origin=origin, change=change, patch=made if made.text else None, note=" ".join(made.notes), before=text
    )
