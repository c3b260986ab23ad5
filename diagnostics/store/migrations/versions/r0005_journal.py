"""What people did and entered: acknowledgements, maintenance, markers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "journal",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("action", "who", "origin", "deployment")),
        sa.Column("incident", sa.String(64), nullable=False),
        sa.Column("start", sa.Double, nullable=False),
        sa.Column("end", sa.Double),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("kind", "text")),
    )
    op.create_index("journal_by_time", "journal", ["at"])
