"""What Alembic runs: the migrations on the connection that `migrations.upgrade` hands over.

All steps of an upgrade are one transaction, so an interrupted one leaves the old tables.
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
