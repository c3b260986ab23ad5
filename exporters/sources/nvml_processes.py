"""Which processes are on a GPU or on a MIG instance of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
# The kernel's fixed inode number of the first process namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO). NVML
# numbers processes as that namespace does: a name looked up from another one would be somebody else's.
_FIRST_NAMESPACE = "pid:[4026531836]"


class ProcessNames:
    """Names of processes, each looked up once while it is there."""

    def __init__(self) -> None:
        self._known: dict[int, str | None] = {}
        self._visible = _sees_all_processes()

    def listed(self, found: Sequence[Any]) -> list[dict[str, object]]:
        """Return NVML's list as a body holds it; what is no longer in it is forgotten."""
        if self._visible:
            self._known = {one.pid: self._known.get(one.pid) or _name_of(one.pid) for one in found}
        return [self._process(one.pid, one.usedGpuMemory) for one in found]

    def _process(self, pid: int, memory: int | None) -> dict[str, object]:
        process: dict[str, object] = {"pid": pid, "used_memory_bytes": memory}
        name = self._known.get(pid)
        return {**process, "name": name} if name else process


def _sees_all_processes() -> bool:
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _FIRST_NAMESPACE
    except OSError:
        return False


def _name_of(pid: int) -> str | None:
    try:
        return (_PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
