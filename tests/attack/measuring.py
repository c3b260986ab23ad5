"""What an attack is measured by: time and memory of a command, and a service that is asked whether it lives."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tests.collect.fake_triton import FakeTriton, fake_triton, free_ports
from tests.soak.running import DIAG, ROOT, Serving, environment, serving

MIB = 2**20
COMMAND_SECONDS = 10.0
"""Of processor time, for any capture up to 1 MB: the machine may be busy with other tests."""
COMMAND_BYTES = 512 * MIB
SERVICE_BYTES = 600 * MIB
HEALTH_SECONDS = 1.0


@dataclass(frozen=True)
class Ended:
    """A command that has ended.

    Attributes:
        code: its exit code, -9 if it was killed after the patience.
        seconds: of processor time, its own and its children's.
        peak: bytes resident at most.
        output: what it wrote to standard output.
        errors: and to standard error.

    """

    code: int
    seconds: float
    peak: int
    output: str
    errors: str

    def is_bounded(self, seconds: float = COMMAND_SECONDS, most: int = COMMAND_BYTES) -> Ended:
        """Hold it against the ceilings, and return it."""
        stated = f"{self.errors[-500:]!r}"
        assert self.code >= 0, f"killed by signal {-self.code} after {self.seconds:.1f} s: {stated}"
        assert "Traceback" not in self.errors, self.errors[-2000:]
        assert self.seconds <= seconds, f"{self.seconds:.1f} s of processor time: {stated}"
        assert self.peak <= most, f"{self.peak / MIB:.0f} MiB: {stated}"
        return self


def run(
    program: Sequence[str],
    *,
    patience: float = 60.0,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | BinaryIO = subprocess.DEVNULL,
    stdout: int | BinaryIO | None = None,
    stderr: int | BinaryIO | None = None,
    before: Callable[[], object] | None = None,
) -> Ended:
    """Run a program to its end, and kill it after `patience` seconds; `before` runs in it before it begins."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            program,
            cwd=cwd or ROOT,
            env={**environment(), **(env or {})},
            stdin=stdin,
            stdout=stdout or output,
            stderr=stderr or errors,
            preexec_fn=before,
        )
        killing = threading.Timer(patience, process.kill)
        killing.start()
        peak, over = 0, 0
        while not over:
            peak = max(peak, resident_at_most(process.pid))  # that of wait4 is the caller's where that was larger
            over, status, usage = os.wait4(process.pid, os.WNOHANG)
            time.sleep(0 if over else 0.005)
        killing.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)  # else it waits for a process that is gone
        output.seek(0)
        errors.seek(0)
        return Ended(
            code=process.returncode,
            seconds=usage.ru_utime + usage.ru_stime,
            peak=peak,
            output=output.read().decode(errors="replace"),
            errors=errors.read().decode(errors="replace"),
        )


def resident_at_most(pid: int) -> int:
    """Return the most bytes of a process that were resident since its program began; 0 of one that has ended."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


def diag(*arguments: str | Path, **more: object) -> Ended:
    """Run `diag` with these arguments, as `run` does."""
    return run([*DIAG, *map(str, arguments)], **more)  # type: ignore[arg-type]


@dataclass
class Attacked:
    """A running service that is asked for `/healthz` ten times a second.

    Attributes:
        service: the process, its address and its log.
        triton: the server that it watches.
        grpc: the port of OTLP over gRPC.

    """

    service: Serving
    triton: FakeTriton
    grpc: int

    @property
    def url(self) -> str:
        return self.service.url

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def peak(self) -> int:
        """Return the most bytes that were resident since it began."""
        return resident_at_most(self.service.process.pid)

    @contextlib.contextmanager
    def holding(self, seconds: float = HEALTH_SECONDS, most: int = SERVICE_BYTES) -> Iterator[None]:
        """Attack inside: it answers `/healthz` in time all along, and stays within its memory."""
        asking = subprocess.Popen(
            [sys.executable, "-m", "tests.attack.asking", self.url, str(self.service.process.pid)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            yield
        finally:
            reported = json.loads(asking.communicate(timeout=60)[0])
        assert self.service.process.poll() is None, self.service.log.read_text()[-2000:]
        assert reported["answers"]
        assert not reported["failed"], reported["failed"][:3]
        assert reported["slowest"] <= seconds, f"/healthz took {reported['slowest']:.2f} s"
        assert self.peak() <= most, f"{self.peak() / MIB:.0f} MiB"


@contextlib.contextmanager
def attacked(
    folder: Path, more: str = "", *, tls: bool = False, web: str = "", watched: bool = True
) -> Iterator[Attacked]:
    """Run a service that watches a server of recorded bodies.

    `more` is appended to its settings file, and `web` to the section of that name. It need not be `watched`.
    """
    port = free_ports(2)
    web += f'config_file = "{with_certificate(folder)}"\n' if tls else ""
    with fake_triton() as triton:
        file = folder / "diag.toml"
        file.write_text(
            f'[web]\nlisten_address = "127.0.0.1:{port}"\n{web}'
            f'[otlp]\ngrpc_listen_address = "127.0.0.1:{port + 1}"\n'
            f'[collect]\ninterval = "1s"\ntimeout = "0.5s"\n[history]\ndirectory = "{folder}/data"\n'
            + (f'[[server]]\nurl = "http://127.0.0.1:{triton.port}"\n' if watched else "")
            + more
        )
        with serving(file, port, tls=tls) as service:
            yield Attacked(service, triton, port + 1)


def with_certificate(folder: Path) -> Path:
    """Return a web configuration with a new certificate, which nothing vouches for."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", folder / "key.pem")
    subject = ("-subj", "/CN=127.0.0.1", "-days", "2", "-out", folder / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", *key, *subject], check=True, capture_output=True)
    file = folder / "web.yml"
    file.write_text("tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n")
    return file
