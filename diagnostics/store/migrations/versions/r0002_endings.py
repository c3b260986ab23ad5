"""Why an incident ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the reason; of incidents that ended before, it is not known."""
    op.add_column("incidents", sa.Column("ending", sa.Text))
