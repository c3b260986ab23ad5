"""Addresses of the service's own pages, as alerts and messages give them."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from diagnostics.settings.prefix import prefix_of
from diagnostics.settings.tree import WebSettings


@dataclass(frozen=True, slots=True)
class Links:
    """Absolute addresses below `base`, which has no slash at its end."""

    base: str

    @classmethod
    def of(cls, web: WebSettings) -> Links:
        """Return the links of a service: below its external URL, else below where it listens."""
        if web.external_url:
            return cls(web.external_url.rstrip("/"))
        parts = urlsplit(f"//{web.listen_address}")
        host = parts.hostname or ""
        if host in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            host = socket.gethostname()
        netloc = f"[{host}]" if ":" in host else host
        below = prefix_of("", web.route_prefix).links
        return cls(f"http://{netloc}:{parts.port}{below}" if parts.port else f"http://{netloc}{below}")

    def incident(self, identifier: str) -> str:
        """Return the page of an incident."""
        return f"{self.base}/incidents/{quote(identifier, safe='')}"

    def deployment(self, name: str) -> str:
        """Return the page of a deployment."""
        return f"{self.base}/deployments/{quote(name, safe='')}"

    def runbook(self, check: str) -> str:
        """Return the page on what a check means and what to do."""
        return f"{self.base}/runbooks/{quote(check, safe='')}"
