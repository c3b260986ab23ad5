"""What a server's log says of its start: pure functions of its text."""

from __future__ import annotations

import re

_ENTRY = re.compile(r'E\d{4} \S+ \d+ \S+\] "(?P<text>.*?)(?:\\n|")')
_NO_GPU = re.compile(r"CUDA|Cuda|DCGM|NVML")
_NO_OPTION = re.compile(r"unrecognized option '[^']*'")
_PORT_TAKEN = re.compile(r"Socket '[^']*' already in use")
_LIMIT = 300


def start_error(text: str) -> str:
    """Return why a server did not start: the first error entry, since later ones follow from it.

    What it says about a missing GPU is passed over. Without an error entry: its last line.
    """
    option = _NO_OPTION.search(text)
    if option:
        return option.group()
    errors = (match.group("text") for match in _ENTRY.finditer(text))
    return next((error.strip() for error in errors if not _NO_GPU.search(error)), last_line(text))[:_LIMIT]


def last_line(text: str) -> str:
    """Return the last line that is not empty, cut to a readable length."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LIMIT] if lines else "it wrote no log"


def port_taken(text: str) -> str | None:
    """Return the message about a port that another process listens on, None if the log has none."""
    match = _PORT_TAKEN.search(text)
    return match.group() if match else None


def loaded_models(text: str) -> set[str]:
    """Return the names of the models that were loaded at least once."""
    return set(re.findall(r"successfully loaded '([^']+)'", text))
