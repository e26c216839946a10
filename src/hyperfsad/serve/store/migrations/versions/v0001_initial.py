"""All tables, as the models have them; written out here once a version is released."""

import uuid

from alembic import op
from sqlalchemy import insert

from hyperfsad.serve.store.audit import START
from hyperfsad.serve.store.models import Base, Identity, now

SHIFTS = {"starts": ["06:00", "14:00", "22:00"], "zone": None}
revision = "0001"
down_revision = None


def upgrade() -> None:
    Base.metadata.create_all(op.get_bind())
    own = {"id": uuid.uuid4().hex, "inspections": 0, "seen": now(), "shifts": SHIFTS}
    op.execute(insert(Identity).values(**own, audit_rows=0, audit_last=START))
