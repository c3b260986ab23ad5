"""The events of objectives, and what took them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "slo_events",
        sa.Column("slo", sa.Text, primary_key=True),
        sa.Column("definition", sa.String(12), primary_key=True),
        sa.Column("deployment", sa.Text, primary_key=True),
        sa.Column("cause", sa.String(64), primary_key=True),
        sa.Column("seconds", sa.Integer, primary_key=True),
        sa.Column("at", sa.Integer, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("check", "server", "model", "source")),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("total", "bad", "low", "high")),
        sqlite_with_rowid=False,
    )
    op.create_index("slo_events_by_age", "slo_events", ["seconds", "at"])
