"""Signals by the name that evidence lines show. `python -m tests.signals.named WORD` lists those with a word.

It prints how to import each, its name in evidence lines, its unit, for what it is read, and what it means.
"""

from __future__ import annotations

import argparse
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module

from diagnostics import signals
from diagnostics.signals.signal import Signal


def defined() -> Iterator[tuple[str, str, Signal]]:
    """Yield each signal with the module that makes it and its name there."""
    for entry in pkgutil.iter_modules(signals.__path__):
        module = import_module(f"{signals.__name__}.{entry.name}")
        made = set(re.findall(r"^([A-Z_]+)\b", inspect.getsource(module), re.MULTILINE))  # not those that it imports
        for name, value in vars(module).items():
            if isinstance(value, Signal) and name in made:
                yield module.__name__, name, value


def named_signal(name: str) -> Signal:
    """Return the one signal of this name."""
    (signal,) = {signal for _, _, signal in defined() if signal.name == name}
    return signal


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.signals.named")
    parser.add_argument("word", nargs="?", default="", help="part of a name or of what it means; left out: all")
    word = parser.parse_args(arguments).word.lower()
    for module, name, signal in defined():
        if word in f"{module} {name} {signal.name} {signal.doc}".lower():
            print(f"from {module} import {name}  # {signal.name}: {signal.unit.value} of a {signal.scope.value}")
            print(f"    {signal.doc}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
