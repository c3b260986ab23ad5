"""What Alembic runs: the steps that are missing, on the connection that it was handed, all or none."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
