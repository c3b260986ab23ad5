"""What a server is started with: its backend folder, command line and environment variables."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnostics.demo.environment import TritonEnvironment
from diagnostics.demo.ports import HOST, Ports

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

        Files that appear beside a loaded model make the server take it for a changed one: a new instance
        count alone, which it otherwise takes over in place, would load the model anew.
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
