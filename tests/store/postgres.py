"""A real PostgreSQL in a folder of its own, on a port of the loopback and a socket in that folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PASSWORD = "hunter2"


def programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    path = shutil.which("initdb")
    if not found and path is None:
        pytest.fail("PostgreSQL's programs are not installed")
    return found[-1].parent if found else Path(path or "").parent


@dataclass
class Postgres:
    folder: Path
    port: int
    user: str | None

    @property
    def url(self) -> str:
        return f"postgresql://diag@127.0.0.1:{self.port}/postgres"

    def run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [programs() / program, *arguments], user=self.user, cwd=self.folder, check=True, stdout=subprocess.DEVNULL
        )

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-o", options, "-l", f"{self.folder}/log", "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-m", "immediate", "stop")

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stop all its processes meanwhile: the system takes connections for it, and nothing is answered."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        processes = (first, *map(int, children))
        for one in processes:
            os.kill(one, signal.SIGSTOP)
        try:
            yield
        finally:
            for one in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGCONT)


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server; as root it runs as another user, as it refuses to run as root."""
    folder = Path(tempfile.mkdtemp(prefix="diag-pg-"))
    user = "nobody" if os.geteuid() == 0 else None
    if user:
        shutil.chown(folder, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Postgres(folder, port, user)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    try:
        server.run("initdb", "-D", f"{folder}/data", "-U", "diag", "-A", "scram-sha-256", f"--pwfile={secret}", "-N")
        server.start()
        yield server
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
