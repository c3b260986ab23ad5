"""`/api/v1/incidents/ID/picture.png`: an incident as one picture."""

from __future__ import annotations

import threading
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path
from fastapi.responses import Response

from diagnostics.errors import UsageError
from diagnostics.service.http.api import MOST_AT_ONCE, ONLY_KNOWN, PREFIX, one_of
from diagnostics.service.http.openapi import PAST, PROBLEMS
from diagnostics.service.http.page.pictures import IncidentPictures

_PNG: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A PNG of 1040 pixels width",
        "content": {"image/png": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def pictures_router(pictures: IncidentPictures) -> APIRouter:
    """Return the route of pictures."""
    free = threading.BoundedSemaphore(MOST_AT_ONCE)
    routes = APIRouter(prefix=PREFIX, responses=PROBLEMS, dependencies=ONLY_KNOWN, tags=[PAST])

    @routes.get(
        "/incidents/{identity}/picture.png", summary="An incident's picture", responses=_PNG, response_class=Response
    )
    def picture(
        identity: Annotated[str, Path(min_length=1, max_length=64, description="Id of the incident.")],
    ) -> Response:
        """Return the stage graph and the timeline of an incident.

        They are of now while it lasts, else of its worst moment.
        It needs the extra `plot`; without it the status is 501.
        """
        try:
            with one_of(free):
                found = pictures.png(identity)
        except UsageError as error:
            raise HTTPException(501, str(error)) from None
        if found is None:
            raise HTTPException(404, f"there is no incident {identity!r}, or nothing is left of it to draw")
        return Response(found, media_type="image/png", headers={"Cache-Control": "no-cache"})

    return routes
