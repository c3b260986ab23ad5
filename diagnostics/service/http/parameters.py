"""Parameters that nobody knows: refused, as an answer to another question than was asked is worse than none."""

from __future__ import annotations

from fastapi import Depends, HTTPException, Request
from fastapi.routing import APIRoute


def _only_known(request: Request) -> None:
    route: APIRoute = request.scope["route"]
    known = sorted(each.alias for each in route.dependant.query_params)
    for name in request.query_params:
        if name not in known:
            rest = f"there are {', '.join(known)}" if known else "there are none"
            raise HTTPException(400, f"{name[:100]}: there is no such parameter; {rest}")


ONLY_KNOWN = [Depends(_only_known)]
"""The dependencies of a router whose paths refuse parameters that they do not have, with status 400."""
