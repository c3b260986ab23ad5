"""Parameters that nobody knows, or more of one than are read: refused.

An answer to another question than was asked is worse than none.
"""

from __future__ import annotations

from typing import get_args, get_origin

from fastapi import Depends, HTTPException, Request
from fastapi.routing import APIRoute


def _takes_several(annotation: object) -> bool:
    return any(get_origin(one) is list for one in (annotation, *get_args(annotation)))


def _only_known(request: Request) -> None:
    route: APIRoute = request.scope["route"]
    known = sorted(each.alias for each in route.dependant.query_params)
    single = {each.alias for each in route.dependant.query_params if not _takes_several(each.field_info.annotation)}
    for name in request.query_params:
        if name in single and len(request.query_params.getlist(name)) > 1:
            raise HTTPException(400, f"{name}: is there twice; give it once")
        if name not in known:
            rest = f"there are {', '.join(known)}" if known else "there are none"
            raise HTTPException(400, f"{name[:100]}: there is no such parameter; {rest}")


ONLY_KNOWN = [Depends(_only_known)]
"""The dependencies of a router whose paths refuse parameters that they do not have, with status 400."""
