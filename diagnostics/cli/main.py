"""The entry point: finds the verb, and turns every failure into one line and a documented exit code.

Verbs are imported only when they are used, so that `diag --version` stays as quick as an interpreter's start.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import click

from diagnostics import __version__
from diagnostics.errors import EXIT_COLLECT, EXIT_FINDINGS, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, DiagError, reason_of

# Of a message, which may quote a key or a name as long as a file: what is wrong stands first, what to do last.
_BEGINNING, _END = 1500, 500

# In the order of `diag --help`; each is a module of this package that holds a click command named `command`.
VERBS = (
    "explain",
    "diff",
    "record",
    "watch",
    "serve",
    "whatif",
    "tune",
    "verify",
    "apply",
    "lint",
    "bench",
    "slo",
    "checks",
    "gen",
    "mcp",
    "demo",
    "help",
)
_CLOSED = "is closed"
# What a shell shows for a program whose reader went away: 128 + SIGPIPE.
EXIT_READER_GONE = 141
_EPILOG = """\b
Examples:
  diag explain http://triton:8000         why is it slow, and what to change
  diag record triton:8000 -o slow.tar.xz  keep the evidence for later
  diag explain slow.tar.xz                the same answer, without the server
  diag whatif slow.tar.xz --set safety.instance_group.count=3

\b
Exit codes:  0 done, 1 findings at --fail-on, 2 usage, 3 could not collect,
             130 interrupted
Durations:   500ms, 60s, 2m, 1h30m or 7d; a number alone is seconds
Completion:  eval "$(_DIAG_COMPLETE=bash_source diag)", or zsh_, fish_source
Credentials: from DIAG_BEARER_TOKEN or DIAG_BASIC_AUTH (user:password), or
             from a file; never an argument
Variables:   NO_COLOR turns colour off, DIAG_DEBUG=1 shows tracebacks
"""


class _ReaderGone(Exception):
    """The reader of standard output has closed it."""


class _Verbs(click.Group):
    """A group that knows its commands by name and imports them when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        return [verb for verb in VERBS if importlib.util.find_spec(_module(verb))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS or not importlib.util.find_spec(_module(cmd_name)):
            return None
        command = importlib.import_module(_module(cmd_name)).command
        assert isinstance(command, click.Command)
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _noticing_reader_gone():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _noticing_reader_gone():
            return super().invoke(ctx)


@contextlib.contextmanager
def _noticing_reader_gone() -> Iterator[None]:
    # click would end the process with 1, which says that there are findings.
    try:
        yield
    except BrokenPipeError:
        raise _ReaderGone from None


def _module(verb: str) -> str:
    return f"{__package__}.{verb}"


@click.group(cls=_Verbs, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="diag", message="%(prog)s %(version)s")
@click.pass_context
def diag(ctx: click.Context) -> None:
    """Find why an NVIDIA Triton endpoint is slow, and which line to change."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False


def main(arguments: list[str] | None = None) -> int:
    """Run `diag` and return its exit code; failures are printed in one line on standard error.

    Args:
        arguments: the command line after `diag`; by default the process's own.

    """
    # A shell's `>&-` leaves no stream at all. What would be lost by that is output, not messages.
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")  # each write to it fails, as it should
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115 - until the process ends; no slow import
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode must not turn "µs" into a crash.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(arguments)
    except (_ReaderGone, BrokenPipeError):
        code = EXIT_READER_GONE
    reason = _unwritten(sys.stdout)
    if reason and code in (EXIT_OK, EXIT_FINDINGS):
        code = _fail(f"standard output: {reason}", EXIT_COLLECT)
    _unwritten(sys.stderr)
    return code


def _unwritten(stream: TextIO) -> str:
    """Return why what a stream still holds cannot be written, and have it written nowhere; empty if it is written."""
    try:
        stream.flush()
    except BrokenPipeError:
        reason = "the reader is gone"
    except OSError as error:
        reason = _CLOSED if error.errno == errno.EBADF else reason_of(error)
    else:
        return ""
    # The interpreter flushes once more when it ends, and would complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return reason


def _stream_of(error: OSError) -> str:
    """Return the stream that click was writing to as this was raised; empty if it was not."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    if frame.f_globals.get("__name__") != click.utils.__name__:
        return ""
    return "standard error" if frame.f_locals.get("err") else "standard output"


def _run(arguments: list[str] | None) -> int:
    try:
        code = diag.main(arguments, prog_name="diag", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return EXIT_USAGE
    except click.ClickException as error:
        return _fail(_misuse(error), EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except (_ReaderGone, BrokenPipeError):
        raise
    except DiagError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        where = error.filename or _stream_of(error)
        reason = _CLOSED if error.errno == errno.EBADF else reason_of(error)
        return _fail(f"{where}: {reason}" if where else reason, EXIT_COLLECT)
    except Exception as error:  # noqa: BLE001 - a user gets one line, whatever broke
        text = f"internal error: {type(error).__name__}: {error}".rstrip(": ")
        return _fail(f"{text}; please report it, with what DIAG_DEBUG=1 shows", EXIT_COLLECT)
    return code if isinstance(code, int) else EXIT_OK


def _misuse(error: click.ClickException) -> str:
    text = error.format_message().strip().rstrip(".") + _meant(error)
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{text}; see {context.command_path} --help" if context else text


def _meant(error: click.ClickException) -> str:
    """Return the verb or the value that was probably meant; empty where nothing is like what was given."""
    from diagnostics.spelling import close_to

    reported, mark, _ = error.format_message().partition("' is not one of ")
    given = reported.rpartition(": '")[2] if mark else reported.partition("No such command '")[2].partition("'")[0]
    if not given or not isinstance(error, click.UsageError):
        return ""
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param is not None else None
    context = error.ctx
    group = context.command if context is not None else None
    known: Sequence[str] = ()
    if isinstance(kind, click.Choice):
        known = [str(choice) for choice in kind.choices]
    elif isinstance(group, click.Group) and context is not None:
        known = group.list_commands(context)
    close = close_to(given, known)
    return f". Did you mean {' or '.join(map(repr, close))}?" if close else ""


def _fail(text: str, code: int) -> int:
    from diagnostics.render.plain import clean
    from diagnostics.wire.redact import scrub_shapes

    if os.environ.get("DIAG_DEBUG") == "1":
        click.echo(scrub_shapes(traceback.format_exc()), err=True, nl=False)
    line = clean(scrub_shapes(" ".join(text.split())))
    if len(line) > _BEGINNING + _END:
        line = f"{line[:_BEGINNING]} … {line[-_END:]}"
    with contextlib.suppress(OSError):  # the code says it, too
        click.echo(f"diag: {line}", err=True)
    return code
