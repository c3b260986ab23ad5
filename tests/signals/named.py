"""Signals by the name that evidence lines show."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from diagnostics import signals
from diagnostics.signals.signal import Signal


def named_signal(name: str) -> Signal:
    """Return the one signal of this name."""
    modules = (import_module(f"{signals.__name__}.{entry.name}") for entry in pkgutil.iter_modules(signals.__path__))
    found = {value for module in modules for value in vars(module).values() if isinstance(value, Signal)}
    (signal,) = (one for one in found if one.name == name)
    return signal
