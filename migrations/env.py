"""The script that Alembic runs to apply the migrations to an open connection.

The connection comes from `migrations.upgrade`. All steps of an upgrade are one transaction. An
interrupted upgrade therefore leaves the old tables unchanged.
"""

from alembic import context

from eventstore.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
