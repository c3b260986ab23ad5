"""Between which moments the events of a minute were counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the moments; those of earlier minutes are not known."""
    for name in ("began", "ended"):
        op.add_column("slo_events", sa.Column(name, sa.Double))
