"""A real Triton with a known fault that goes on until it is interrupted, for every other command to be tried on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from diagnostics.cli.demonstration import Say, actions_of, load_text
from diagnostics.cli.interrupting import interruptible
from diagnostics.demo.driving import run_load
from diagnostics.demo.environment import TritonEnvironment
from diagnostics.demo.faults import DemoFault
from diagnostics.demo.load import LoadProgress
from diagnostics.demo.server import TritonLauncher

# The arrivals of an open loop are drawn before the first is sent, so a load has an end; no one tries things for longer.
LONGEST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDemonstration:
    """The server of one fault, kept under its load.

    Attributes:
        environment: where the server comes from.
        fault: what is wrong with it.
        seconds: how long at most.
        say: told each step, on standard error.
        show: told what can be tried, on standard output.
        progress: told how far the load is.

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


def to_try(server: TritonLauncher) -> Iterator[str]:
    """Yield command lines for a running server, the first of them ready after half a minute of load."""
    yield f"diag explain {server.http_url} --repository {server.repository}"
    yield f"diag record {server.http_url} -o slow.tar.xz --for 30s"
    yield f"diag watch {server.http_url}"
    yield f"diag serve {server.http_url}"
