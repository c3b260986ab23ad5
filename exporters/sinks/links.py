"""Addresses of the service's own pages, as alerts and messages give them."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from diagnostics.render.plain import clean
from diagnostics.settings.addresses import prefix_of
from diagnostics.settings.tree import WebSettings


@dataclass(frozen=True, slots=True)
class Links:
    """Absolute addresses below `base`, which has no slash at its end.

    `runbooks` is where the folder of generated runbooks is published; empty for the service's own pages.
    `pictures` says whether the service draws incidents.
    """

    base: str
    runbooks: str = ""
    pictures: bool = False

    @classmethod
    def of(cls, web: WebSettings, *, pictures: bool = False) -> Links:
        """Return the links of a service: below its external URL, else below where it listens."""
        if web.external_url:
            return cls(web.external_url.rstrip("/"), web.runbooks_url.rstrip("/"), pictures)
        parts = urlsplit(f"//{web.listen_address}")
        host = parts.hostname or ""
        if host in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            host = socket.gethostname()
        netloc = f"[{host}]" if ":" in host else host
        below = prefix_of("", web.route_prefix).links
        base = f"http://{netloc}:{parts.port}{below}" if parts.port else f"http://{netloc}{below}"
        return cls(base, web.runbooks_url.rstrip("/"), pictures)

    def incident(self, identifier: str) -> str:
        """Return the page of an incident."""
        return f"{self.base}/incidents/{quote(identifier, safe='')}"

    def picture(self, identifier: str) -> str:
        """Return the PNG of an incident; empty where the service draws none."""
        return f"{self.base}/api/v1/incidents/{quote(identifier, safe='')}/picture.png" if self.pictures else ""

    def deployment(self, name: str) -> str:
        """Return the page of a deployment."""
        return f"{self.base}/deployments/{quote(name, safe='')}"

    def runbook(self, check: str) -> str:
        """Return the page on what a check means and what to do."""
        page = quote(check, safe="")
        return f"{self.runbooks}/{page}.md" if self.runbooks else f"{self.base}/runbooks/{page}"


# Chat programs take <!channel>, @here and [text](address) for commands; mail and pages show the stand-ins as well.
_STAND_INS = str.maketrans({"<": "‹", ">": "›"})
_MENTION = re.compile(r"@(?=[^\s@])")


def harmless(text: str, most: int = 1_000) -> str:
    """Return the text as one line of at most `most` characters that no chat program takes for a command."""
    return cut(_unarmed(clean(text)), most)


def harmless_lines(text: str, most: int) -> str:
    """Return the text with its line breaks and tabs, otherwise like `harmless`; cut at the end of a line."""
    lines = [_unarmed("\t".join(clean(part) for part in line.split("\t"))) for line in text.split("\n")]
    whole = "\n".join(lines)
    if len(whole) <= most:
        return whole
    return f"{whole[:most].rpartition(chr(10))[0]}\n…"


def cut(text: str, most: int) -> str:
    """Return the text, its end replaced by … where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _unarmed(text: str) -> str:
    return _MENTION.sub("＠", text.translate(_STAND_INS)).replace("](", "] (")
