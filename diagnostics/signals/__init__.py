"""Signals: quantities with a name, a unit, a meaning and their readers, best first. One module per family."""
