"""All tables, as the models have them; written out here once a version is released."""

from alembic import op

from hyperfsad.serve.store.models import Base

revision = "0001"
down_revision = None


def upgrade() -> None:
    Base.metadata.create_all(op.get_bind())
