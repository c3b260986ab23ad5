"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A deadline measures how busy the machine is, not the code: tests share it with servers that other tests start.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
