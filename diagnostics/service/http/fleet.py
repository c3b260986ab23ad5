"""`/api/v1/fleet`: all deployments of all workers."""

from __future__ import annotations

from fastapi import APIRouter

from diagnostics.service.fleet import FleetBoard, FleetState
from diagnostics.service.http.api import ONLY_KNOWN, PREFIX
from diagnostics.service.http.openapi import NOW, PROBLEMS


def fleet_router(board: FleetBoard) -> APIRouter:
    """Return `/api/v1/fleet`."""
    routes = APIRouter(prefix=PREFIX, responses=PROBLEMS, dependencies=ONLY_KNOWN, tags=[NOW])

    @routes.get("/fleet", summary="The fleet")
    def fleet() -> FleetState:
        """Return how all deployments of all workers stand, the worst first, and which workers do not report."""
        return board.state()

    return routes
