"""What Alembic runs; `Database.migrate` hands it the connection."""

from alembic import context

from hyperfsad.serve.store.models import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()
