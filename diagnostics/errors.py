"""Everything that ends a command with a message.

DiagError
├── UsageError            the command line or a setting is wrong             exit 2
└── CollectError          nothing, or too little, could be read              exit 3
    ├── MalformedBody     a body is not what its endpoint promises
    └── CaptureError      a capture cannot be opened, or is not one

Each message is one line: what happened, where, and what to do.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_COLLECT = 3
EXIT_INTERRUPTED = 130


class DiagError(Exception):
    """A failure with a message for the user.

    Args:
        what: what went wrong, in plain words.
        where: the URL, file or line it happened at, if there is one.
        hint: what to do about it, if anything is known to help.

    """

    exit_code = EXIT_COLLECT

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = what, where, hint
        text = f"{where}: {what}" if where else what
        super().__init__(f"{text}; {hint}" if hint else text)


class UsageError(DiagError):
    """The command line or a setting cannot be used as given."""

    exit_code = EXIT_USAGE


class CollectError(DiagError):
    """Nothing, or too little, could be read from a source."""


class MalformedBody(CollectError):
    """A body is not what its endpoint promises (an HTML page, a truncated file, another service)."""


class CaptureError(CollectError):
    """A capture cannot be opened, is damaged, or is of another format."""


def reason_of(error: Exception) -> str:
    """Return an operating system error in words, without its number and path."""
    if isinstance(error, UnicodeDecodeError):
        return "not text"
    return (getattr(error, "strerror", None) or str(error)).lower()


def not_installed(error: ModuleNotFoundError, extra: str, *, where: str, otherwise: str = "") -> UsageError:
    """Return the error to raise where a package of one of our extras is missing; `otherwise` says what else helps."""
    hint = f"pip install 'triton-diagnostics[{extra}]'{otherwise}"
    return UsageError(f"{error.name or 'a package'} is not installed", where=where, hint=hint)
