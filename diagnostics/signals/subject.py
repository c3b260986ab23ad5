"""What is spoken of: a server, a model and version on it, a GPU, an ensemble."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """The kind of subject that a signal is read for, or a check runs over."""

    SERVER = "server"
    MODEL = "model"
    ENSEMBLE = "ensemble"
    GPU = "gpu"
    # What users call: each ensemble, and each model that no ensemble calls (all its versions).
    ENTRY = "entry"
    # Each model of the repository index, served or not; and whatever was away for a while, a server as well.
    LISTED = "listed"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Subject:
    """Hashable name of a thing that readings and findings are about.

    `version` None on a model means all its versions together.
    """

    server: str
    model: str | None = None
    version: str | None = None
    gpu: str | None = None
    ensemble: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """Return the JSON form of the contract, absent parts as null."""
        return {
            "server": self.server,
            "model": self.model,
            "version": self.version,
            "gpu": self.gpu,
            "ensemble": self.ensemble,
        }

    def within(self, ensemble: str | None) -> Subject:
        """Return the same subject as seen from one ensemble."""
        if self.ensemble == ensemble:
            return self
        return Subject(server=self.server, model=self.model, version=self.version, gpu=self.gpu, ensemble=ensemble)

    def __str__(self) -> str:
        parts = [part for part in (self.model and f"model {self.model}", self.gpu and f"GPU {self.gpu}") if part]
        if self.model is None and self.ensemble:
            parts.append(f"ensemble {self.ensemble}")
        return ", ".join(parts) or f"server {self.server}"
