"""JSON whatever servers call themselves: a name may hold half a surrogate pair, which UTF-8 cannot."""

from __future__ import annotations

import json

from fastapi.responses import JSONResponse


class JsonAnswer(JSONResponse):
    """An answer in ASCII, with escapes for all other characters."""

    def render(self, content: object) -> bytes:
        """Return the body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
