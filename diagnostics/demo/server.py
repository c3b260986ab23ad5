"""What a server is started with: its backend folder, command line and environment variables."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import urllib3

from diagnostics.demo.environment import TritonEnvironment
from diagnostics.demo.faults import DemoFault, materialise
from diagnostics.errors import CollectError

# They would reach the interpreter that the stub embeds, or the server's libraries.
_FOREIGN = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_PRELOAD"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of a server.

    Attributes:
        environment: where its program is.
        repository: the model repository it serves.
        folder: a private folder, which goes when the server does.
        ports: its loopback ports.
        shm_prefix: begins the name of each shared memory region that it makes.
        exit_timeout: seconds that it waits at its end for requests in flight and open connections.
        args: further options.

    """

    environment: TritonEnvironment
    repository: Path
    folder: Path
    ports: Ports
    shm_prefix: str
    exit_timeout: float
    args: Sequence[str]

    def write_backend(self) -> None:
        """Put the Python backend and the stub of the environment's interpreter together, as the server wants them."""
        backend = self.folder / "backends" / "python"
        shutil.copytree(self.environment.python_backend, backend)
        shutil.copy(self.environment.stub, backend)

    def compile_models(self) -> None:
        """Write the bytecode of the models' modules, as the server's interpreter would when it loads them.

        Files that appear beside a loaded model make the server take it for a changed one: a new instance count alone,
        which it otherwise takes over in place, would load the model again.
        """
        subprocess.run([self.environment.python, "-m", "compileall", "-qq", self.repository], check=False)

    def command(self) -> list[str]:
        """Return the command line."""
        options: dict[str, object] = {
            "model-repository": self.repository,
            "backend-directory": self.folder / "backends",
            "backend-config": f"python,shm-region-prefix-name={self.shm_prefix}",
            "model-control-mode": "explicit",
            "load-model": "*",
            "metrics-config": "summary_latencies=true",
            "exit-timeout-secs": round(self.exit_timeout),
        }
        for service in ("http", "grpc", "metrics"):
            options |= {f"{service}-address": HOST, f"{service}-port": getattr(self.ports, service)}
        given = [f"--{name}={value}" for name, value in options.items()]
        return [str(self.environment.tritonserver), *given, *self.args]

    def variables(self) -> dict[str, str]:
        """Return the environment variables: this process's, with the paths that server and stub need."""
        variables = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        # The stub embeds Python and finds its packages through the first interpreter on PATH.
        variables["PATH"] = f"{self.environment.python.parent}:{os.environ.get('PATH', os.defpath)}"
        variables["LD_LIBRARY_PATH"] = self.environment.library_path
        return variables


HOST = "127.0.0.1"
_LISTEN = "0A"
# gRPC opens IPv4 addresses as mapped IPv6 ones.
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The three loopback ports of a server."""

    http: int
    grpc: int
    metrics: int

    @classmethod
    def free(cls) -> Self:
        """Return three ports that nobody listens on right now; another process may still take one."""
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
            for each in sockets:
                each.bind((HOST, 0))
            http, grpc, metrics = (each.getsockname()[1] for each in sockets)
        return cls(http=http, grpc=grpc, metrics=metrics)

    def held_by(self, pid: int, arguments: Sequence[str] = ()) -> bool:
        """Return whether the process listens on all that its arguments do not switch off; false also if it is gone."""
        offered = {"http": self.http, "grpc": self.grpc, "metrics": self.metrics}
        wanted = {port for role, port in offered.items() if f"--allow-{role}=false" not in arguments}
        return wanted <= _listened(pid)


def _listened(pid: int) -> set[int]:
    # /proc/net/tcp: sl local_address rem_address st … uid timeout inode (proc_pid_net(5)).
    sockets = _sockets(pid)
    rows = [line.split() for table in _TABLES if table.exists() for line in table.read_text("ascii").splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTEN and row[9] in sockets}


def _sockets(pid: int) -> set[str]:
    inodes = set()
    with contextlib.suppress(FileNotFoundError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                inodes.add(str(entry.readlink()).removeprefix("socket:[").removesuffix("]"))
    return inodes


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


_SUPERVISOR = Path(__file__).with_name("supervise.py")
_ATTEMPTS = 3
_LOAD_TIMEOUT = 120.0
Log = Callable[[str], None]


class TritonLauncher:
    """A context that holds while a ready server runs; after it neither process nor file of it is left.

    Must be entered and left by one thread. Temporary folders go to `$TMPDIR`.

    Args:
        environment: where the server is.
        repository: a fault, whose repository is written to a temporary folder; or the folder of a model
            repository, which is served where it is and stays.
        ports: the loopback ports; by default free ones, chosen again if another process takes one meanwhile.
        args: further options of `tritonserver`.
        log: is called with a line for each step of the start; by default nothing is said.
        start_timeout: seconds until a server that is not ready counts as failed.
        stop_timeout: seconds that requests in flight, and connections that clients keep open, get at the end.

    Raises:
        CollectError: on entry, if the server does not get ready; with the last error of its log.

    """

    def __init__(
        self,
        environment: TritonEnvironment,
        repository: DemoFault | Path,
        ports: Ports | None = None,
        args: Sequence[str] = (),
        log: Log | None = None,
        *,
        start_timeout: float = 120.0,
        stop_timeout: float = 5.0,
    ) -> None:
        self._environment, self._source, self._args = environment, repository, tuple(args)
        self._wanted_ports, self._log = ports, log or (lambda _: None)
        self._start_timeout, self._stop_timeout = start_timeout, stop_timeout
        self._http = urllib3.PoolManager(retries=False)
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._folder = Path()
        self._shm_prefix = ""
        self._exit_status: int | None = None
        self._ready = False
        self.repository = Path()
        self.ports = ports or Ports(http=0, grpc=0, metrics=0)
        self.pid = 0

    @property
    def http_url(self) -> str:
        return f"http://{HOST}:{self.ports.http}"

    @property
    def grpc_url(self) -> str:
        return f"grpc://{HOST}:{self.ports.grpc}"

    @property
    def metrics_url(self) -> str:
        return f"http://{HOST}:{self.ports.metrics}/metrics"

    @property
    def log_path(self) -> Path:
        """The server's own log; it goes with the server."""
        return self._folder / "server.log"

    def __enter__(self) -> Self:
        for attempt in range(_ATTEMPTS):
            try:
                self._start()
            except BaseException as error:
                bad_luck = self._wanted_ports is None and port_taken(self._log_text()) is not None
                self.stop()
                if not (isinstance(error, CollectError) and bad_luck and attempt + 1 < _ATTEMPTS):
                    raise
            else:
                return self
        raise AssertionError("the last attempt raises or returns")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self.ports = self._wanted_ports or Ports.free()
        self._exit_status, self._ready = None, False
        self._folder = Path(tempfile.mkdtemp(prefix="diag-triton-"))
        self.repository = self._write_repository()
        self._supervisor = self._supervise()
        self.pid = self._hear(10.0) or 0
        self._wait_until_ready()

    def _write_repository(self) -> Path:
        if isinstance(self._source, DemoFault):
            return materialise(self._source, self._folder / "repository")
        return self._source

    def _supervise(self) -> subprocess.Popen[bytes]:
        self._shm_prefix = f"diag-triton-{os.getpid()}-{secrets.token_hex(4)}-"
        start = Start(
            environment=self._environment,
            repository=self.repository,
            folder=self._folder,
            ports=self.ports,
            shm_prefix=self._shm_prefix,
            exit_timeout=self._stop_timeout,
            args=self._args,
        )
        start.write_backend()
        if isinstance(self._source, DemoFault):
            start.compile_models()
        task = {
            "command": start.command(),
            "environment": start.variables(),
            "log": str(self.log_path),
            "folder": str(self._folder),
            "shm_prefix": self._shm_prefix,
            "grace": self._stop_timeout + 2.0,
        }
        supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SUPERVISOR)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert supervisor.stdin is not None
        # Not as an argument: the environment may hold secrets, and every user may read a command line.
        supervisor.stdin.write(json.dumps(task).encode() + b"\n")
        return supervisor

    def _hear(self, timeout: float) -> int | None:
        """Return the next number that the supervisor says, None if it says none in time."""
        assert self._supervisor is not None
        assert self._supervisor.stdout is not None
        ready, _, _ = select.select([self._supervisor.stdout], [], [], timeout)
        line = self._supervisor.stdout.readline() if ready else b""
        return int(line) if line.strip() else None

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._start_timeout
        stated = ""
        while not self._is_ready():
            self.check()
            if time.monotonic() > deadline:
                raise CollectError(
                    f"the server was not ready after {self._start_timeout:.0f} s: {self._why()}",
                    where=self.http_url,
                )
            stated = self._say(self._progress(), stated)
            time.sleep(0.1)
        self._ready = True
        self._say(f"server ready at {self.http_url}", stated)

    def _is_ready(self) -> bool:
        if not self._get_ok("/v2/health/ready"):
            return False
        if self.ports.held_by(self.pid, self._args):
            return True
        # A metrics port that is taken does not end the server: another one's page would be read.
        taken = port_taken(self._log_text())
        if taken is not None:
            raise CollectError(f"the server cannot open its ports: {taken}", where=self.metrics_url)
        return False

    def _say(self, line: str, stated: str) -> str:
        if line != stated:
            self._log(line)
        return line

    def _progress(self) -> str:
        models = sum(1 for _ in self.repository.glob("*/config.pbtxt"))
        return f"loading models: {len(loaded_models(self._log_text()))} of {models}"

    def _get_ok(self, path: str) -> bool:
        try:
            return self._request("GET", path, timeout=2.0).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def _request(self, method: str, path: str, timeout: float) -> urllib3.BaseHTTPResponse:
        try:
            return self._http.request(method, self.http_url + path, timeout=timeout)
        finally:
            # A connection left open would keep the server from stopping until its exit timeout.
            self._http.clear()

    def check(self) -> None:
        """Hold if the server runs.

        Raises:
            CollectError: it has ended by itself; with its exit status and the last error of its log.

        """
        if self._exit_status is None and self._supervisor is not None:
            self._exit_status = self._hear(0.0)
            if self._supervisor.poll() is not None:
                raise CollectError("the server's supervisor was ended from outside", where=self.http_url)
        if self._exit_status is not None:
            raise CollectError(f"the server ended {_status(self._exit_status)}: {self._why()}", where=self.http_url)

    def _why(self) -> str:
        text = self._log_text()
        return last_line(text) if self._ready else start_error(text)

    def _log_text(self) -> str:
        try:
            return self.log_path.read_text("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def load_model(self, name: str) -> None:
        """Load or reload a model from the repository as it is now; returns when the server serves it.

        Raises:
            CollectError: the server refuses it (it then still serves what it had), or does not answer.

        """
        try:
            answer = self._request("POST", f"/v2/repository/models/{name}/load", timeout=_LOAD_TIMEOUT)
        except urllib3.exceptions.HTTPError as error:
            self.check()
            raise CollectError(f"cannot load {name}: {type(error).__name__}", where=self.http_url) from error
        if answer.status != 200:
            reason = answer.data.decode("utf-8", "replace")[:300]
            raise CollectError(f"cannot load {name}: {reason}", where=self.http_url)

    def stop(self) -> None:
        """End the server and remove everything of it; also if it never started or was stopped before."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            assert supervisor.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                supervisor.stdin.close()
            if supervisor.wait() != 0:
                self._clean_up_alone()
            assert supervisor.stdout is not None
            supervisor.stdout.close()
        if self._folder.name:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _clean_up_alone(self) -> None:
        """Do what the supervisor could not, because it was killed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for region in Path("/dev/shm").glob(f"{self._shm_prefix}*"):  # noqa: S108
            region.unlink(missing_ok=True)


def _status(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with status {code}"
