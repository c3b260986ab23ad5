"""The first schema: segments, incidents with reports, findings, verdicts, signals."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "meta",
        sa.Column("key", sa.String(64), primary_key=True),
        _text("value"),
    )
    op.create_table(
        "segments",
        sa.Column("path", sa.Text, primary_key=True),
        _text("deployment"),
        _number("start"),
        _number("end"),
        sa.Column("bytes", sa.Integer, nullable=False),
    )
    op.create_index("segments_by_time", "segments", ["deployment", "start"])
    _incidents()
    _stated()
    _signals()


def _incidents() -> None:
    op.create_table(
        "incidents",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        *(_text(name) for name in ("deployment", "check", "title", "layer", "server")),
        *(_text(name, absent=True) for name in ("model", "version", "gpu", "ensemble")),
        *(_text(name) for name in ("severity", "worst", "summary")),
        *(_number(name) for name in ("confidence", "onset", "opened", "seen")),
        sa.Column("closed", sa.Double),
        *(_number(name) for name in ("seconds_per_request", "share_of_latency", "share_of_requests_failed")),
        *(_number(name) for name in ("peak", "peak_at")),
        sa.Column("caused_by", sa.String(32)),
    )
    op.create_index("incidents_by_time", "incidents", ["deployment", "opened"])
    op.create_index("incidents_open", "incidents", ["closed"])
    op.create_table(
        "reports",
        sa.Column("incident", sa.String(32), sa.ForeignKey("incidents.id", ondelete="CASCADE"), primary_key=True),
        _number("at"),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def _stated() -> None:
    op.create_table(
        "findings",
        sa.Column("id", sa.Integer, primary_key=True),
        _text("deployment"),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        _number("at"),
        sa.Column("present", sa.Boolean, nullable=False),
        *(_text(name) for name in ("check", "severity", "summary")),
        *(_number(name) for name in ("confidence", "seconds_per_request")),
        *(_number(name) for name in ("share_of_latency", "share_of_requests_failed")),
        sa.Column("caused_by", sa.String(64)),
    )
    op.create_index("findings_by_time", "findings", ["deployment", "fingerprint", "at"])
    op.create_index("findings_by_age", "findings", ["at"])
    op.create_table(
        "verdicts",
        sa.Column("id", sa.Integer, primary_key=True),
        _text("deployment"),
        _number("at"),
        *(_text(name) for name in ("verdict", "reason")),
        _text("layer", absent=True),
        sa.Column("leading", sa.String(64)),
    )
    op.create_index("verdicts_by_time", "verdicts", ["deployment", "at"])
    op.create_index("verdicts_by_age", "verdicts", ["at"])


def _signals() -> None:
    names = ("deployment", "server", "model", "version", "signal")
    op.create_table(
        "series",
        sa.Column("id", sa.Integer, primary_key=True),
        *(_text(name) for name in names),
        sa.UniqueConstraint(*names, name="series_once"),
    )
    op.create_table(
        "signals",
        sa.Column("series", sa.Integer, sa.ForeignKey("series.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("seconds", sa.Integer, primary_key=True),
        sa.Column("at", sa.Integer, primary_key=True),
        *(_number(name) for name in ("mean", "low", "high")),
        sa.Column("count", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("signals_by_age", "signals", ["seconds", "at"])


def _text(name: str, *, absent: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=absent)


def _number(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False)
