"""One known fault on a real server: load it, explain it, apply the patch, load it again, compare."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from diagnostics.anatomy.anatomy import Phase
from diagnostics.cli.interrupting import interruptible
from diagnostics.cli.sources import TIMELESS, WindowOptions, reached, until_sure
from diagnostics.demo.environment import TritonEnvironment
from diagnostics.demo.faults import DemoFault, make_release
from diagnostics.demo.server import TritonLauncher
from diagnostics.diagnosis.diagnose import Validation
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding, Unpredicted
from diagnostics.loadgen.driving import Action, run_load
from diagnostics.loadgen.load import LoadProgress, LoadSummary, SentRequest, summarise
from diagnostics.render.explanation.document import explanation_document
from diagnostics.render.phrases import mean_after
from diagnostics.render.plain import WIDTH
from diagnostics.render.text import as_text
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, QUEUE_SECONDS
from diagnostics.tuning.patch import edited
from diagnostics.units import Unit
from exporters.sources.access import SourceOptions
from exporters.sources.machine import Machine
from exporters.sources.schedule import Source, collect
from exporters.sources.triton import discover

# The first seconds after a start are the server's own: lazy imports, the first execution of every instance.
SETTLING_SECONDS = 4.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRun:
    """One load: what the tool says of it, and what the client saw."""

    explanation: Explanation
    client: LoadSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """The demonstration of one fault.

    Attributes:
        environment: where the server comes from.
        fault: what is wrong with it.
        seconds: length of each load; a fault that happens at a moment needs what its own profile says.
        say: called for each step, on standard error.
        show: called with the result, on standard output.
        progress: called with how far a load is.
        style: gives the explanation its colours.

    """

    environment: TritonEnvironment
    fault: DemoFault
    seconds: float
    say: Say
    show: Say
    progress: Callable[[LoadProgress, float], None]
    style: Callable[[str, str], str]

    def run(self) -> bool:
        """Return whether the fault's own cause was named first.

        Raises:
            CollectError: the server did not start or died.

        """
        self.say(f"starting Triton with the fault {self.fault.name}: {self.fault.does}")
        with TritonLauncher(self.environment, self.fault, log=self.say) as server:
            before = self._load(server)
            self.show(as_text(explanation_document(before.explanation, verbose=False), self.style).rstrip("\n"))
            finding = before.explanation.actionable[0] if before.explanation.actionable else None
            if finding is not None and self._apply(server, finding):
                after = self._load(server)
                self.show("")
                for line in comparison(finding, before, after):
                    self.show(line)
        return self._judge(finding)

    def _load(self, server: TritonLauncher) -> DemoRun:
        profile = replace(self.fault.load, duration=self.seconds)
        self.say(f"driving it for {self.seconds:.0f} s, {load_text(self.fault)}")
        with ThreadPoolExecutor(max_workers=1) as pool:
            load = pool.submit(self._send, server, profile.duration)
            explanation = self._explain(server)
            records = load.result()
        server.check()
        return DemoRun(explanation=explanation, client=summarise(r for r in records if _settled(r, records)))

    def _send(self, server: TritonLauncher, seconds: float) -> list[SentRequest]:
        return run_load(
            server.http_url,
            replace(self.fault.load, duration=seconds),
            actions=actions_of(self.fault, server),
            progress=lambda state: self.progress(state, seconds),
        )

    def _explain(self, server: TritonLauncher) -> Explanation:
        target = discover(server.http_url, SourceOptions())
        with ExitStack() as stack:
            machine = Machine([target])
            stack.callback(machine.close)
            stack.callback(target.close)
            sources: list[Source] = [target, *([machine] if machine.local else [])]
            scrapes = collect(sources, 1.0, seconds=self.seconds - 1.0)
            started: float | None = None
            kept = []
            for scrape in scrapes:
                started = started if started is not None else scrape.mono
                if scrape.kind in TIMELESS or scrape.mono - started >= SETTLING_SECONDS:
                    kept.append(scrape)
            question = WindowOptions(repository=server.repository, validation=Validation())
            found = until_sure(kept, question, [target.name], target.blind_spots, self.say, fixed=True)
            return replace(found, window=reached(found.window, [target]))

    def _apply(self, server: TritonLauncher, finding: Finding) -> bool:
        """Apply the finding's patch to the server's own repository; return whether there was one."""
        change = finding.suggestion.change if finding.suggestion else None
        if change is None or finding.advice is None or finding.advice.patch is None:
            return False
        if self.fault.release is not None:
            self.say("the release has happened; a warm-up helps the next one, so the load is not repeated")
            return False
        path = server.repository / change.model / "config.pbtxt"
        path.write_text(edited(path.read_text("utf-8"), change), "utf-8")
        self.say(f"applying the patch to {change.model} and loading it")
        server.load_model(change.model)
        return True

    def _judge(self, finding: Finding | None) -> bool:
        named = finding.check if finding else None
        if named == self.fault.check:
            return True
        expected = f"the fault is {self.fault.check or 'none'}"
        self.say(f"{expected}, and {named or 'no cause'} was named; on a busy machine a fault may not show")
        return False


def actions_of(fault: DemoFault, server: TritonLauncher) -> list[Action]:
    """Return what the fault does while its load runs: its release, or nothing."""
    release = fault.release
    if release is None:
        return []

    def go_live() -> None:
        make_release(fault, server.repository)
        server.load_model(release.model)

    return [Action(at=release.at, do=go_live)]


def comparison(finding: Finding, before: DemoRun, after: DemoRun) -> Iterator[str]:
    """Yield the table of what was, what was predicted and what came of it, and why cells of it are empty."""
    model, on = finding.subject.model or "", _all_versions(finding)
    predicted = finding.suggestion.prediction if finding.suggestion else None
    unpredicted: dict[str, list[str]] = {}

    def row(label: str, values: Sequence[float | None], unit: Unit, expected: float | None, why: str) -> str:
        if expected is None:
            unpredicted.setdefault(why, []).append(label)
        shown = "—" if expected is None else unit.show(expected)
        return f"{label:<32}{unit.show(values[0]):>12}{shown:>14}{unit.show(values[1]):>12}"

    yield f"{'':<32}{'before':>12}{'predicted':>14}{'after':>12}"[:WIDTH]
    for label, phase, signal in (
        (f"queue of {model}", Phase.QUEUE, QUEUE_SECONDS),
        (f"execution of {model}", Phase.COMPUTE, COMPUTE_SECONDS),
    ):
        expected = predicted.predicted_seconds if predicted and predicted.phase is phase else None
        values = [run.explanation.evidence.read(signal, on).value for run in (before, after)]
        yield row(label, values, Unit.SECONDS, expected, _of_another_phase(finding))
    shares = [run.explanation.evidence.read(INSTANCE_BUSY_SHARE, finding.subject).value for run in (before, after)]
    yield row("busy share of its instances", shares, Unit.RATIO, None, "only times are predicted here")
    means = [_entry_mean(run.explanation, finding) for run in (before, after)]
    label = f"mean of {finding.subject.ensemble or model} (server)"
    yield row(label, means, Unit.SECONDS, mean_after(finding), _why_no_mean(finding))
    for label, pick in (("p50 (client)", "p50_ms"), ("p95 (client)", "p95_ms")):
        seconds = [_seconds(getattr(run.client, pick)) for run in (before, after)]
        yield row(label, seconds, Unit.SECONDS, None, "a client's time includes the network")
    yield f"{'requests, of which failed':<32}{_counts(before):>12}{'—':>14}{_counts(after):>12}"
    unpredicted.setdefault("the demonstration sends as many again", []).append("requests")
    yield ""
    for why, labels in unpredicted.items():
        yield f"not predicted: {', '.join(labels)}: {why}"


def _of_another_phase(finding: Finding) -> str:
    """Return why the time of one phase is not predicted."""
    predicted = finding.suggestion.prediction if finding.suggestion else None
    return f"the suggestion is about its {predicted.phase.value}" if predicted else _why_no_mean(finding)


def _why_no_mean(finding: Finding) -> str:
    """Return why nothing is predicted of whole requests."""
    return finding.effect.because if isinstance(finding.effect, Unpredicted) else "the check predicts none"


def _all_versions(finding: Finding) -> Subject:
    return Subject(server=finding.subject.server, model=finding.subject.model)


def _entry_mean(explanation: Explanation, finding: Finding) -> float | None:
    for item in explanation.anatomy:
        if item.ensemble == finding.subject.ensemble and item.stage(finding.subject.model or ""):
            return item.mean_seconds
    return None


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3


def _counts(run: DemoRun) -> str:
    return f"{run.client.requests}, {run.client.errors}"


def _settled(record: SentRequest, records: list[SentRequest]) -> bool:
    return record.t - records[0].t >= SETTLING_SECONDS


def load_text(fault: DemoFault) -> str:
    """Return in words what load the fault is shown under."""
    load = fault.load
    how = f"{load.concurrency} clients in a closed loop" if load.concurrency else f"{load.rate:g} requests/s"
    return f"{how} ({load.pattern}) to {load.model}"


# The arrivals of an open loop are drawn before the first is sent, so a load has an end; no one tries things for longer.
LONGEST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDemonstration:
    """The server of one fault, kept under its load.

    Attributes:
        environment: where the server comes from.
        fault: what is wrong with it.
        seconds: how long at most.
        say: called for each step, on standard error.
        show: called with what can be tried, on standard output.
        progress: called with how far the load is.

    """

    environment: TritonEnvironment
    fault: DemoFault
    seconds: float
    say: Say
    show: Say
    progress: Callable[[LoadProgress, float], None]

    def run(self) -> None:
        """Serve until Ctrl-C, SIGTERM or the end of the load; all three are ends as wanted.

        Raises:
            CollectError: the server did not start or died.

        """
        self.say(f"starting Triton with the fault {self.fault.name}: {self.fault.does}")
        launcher = TritonLauncher(self.environment, self.fault, log=self.say)
        with interruptible(), contextlib.suppress(KeyboardInterrupt), launcher as server:
            for line in to_try(server):
                self.show(line)
            self.say(f"driving it until Ctrl-C, for {self.seconds:.0f} s at most, {load_text(self.fault)}")
            run_load(
                server.http_url,
                replace(self.fault.load, duration=self.seconds),
                actions=actions_of(self.fault, server),
                progress=lambda state: self.progress(state, self.seconds),
            )
            server.check()
        self.say("stopped; nothing is left behind")


def to_try(server: TritonLauncher) -> Iterator[str]:
    """Yield command lines for a running server, the first of them ready after half a minute of load."""
    yield f"diag explain {server.http_url} --repository {server.repository}"
    yield f"diag record {server.http_url} -o slow.tar.xz --for 30s"
    yield f"diag watch {server.http_url}"
    yield f"diag serve {server.http_url}"
