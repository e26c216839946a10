"""Sums of every hour and day, for trends; those of the inspections that are there."""

import sqlalchemy as sa
from alembic import op

from hyperfsad.serve.store.trends import Key, Sums, periods_of

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    periods = op.create_table(
        "periods",
        sa.Column("product_id", sa.String(length=32), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("anomalous", sa.Integer(), nullable=False),
        sa.Column("unjudged", sa.Integer(), nullable=False),
        sa.Column("scores", sa.JSON(), nullable=False),
        sa.Column("strengths", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["product_id"], ["products.id"], name=op.f("fk_periods_product_id")
        ),
        sa.PrimaryKeyConstraint("product_id", "length", "start", name=op.f("pk_periods")),
    )
    op.create_index(
        op.f("ix_inspections_product_id_revision_time_id"),
        "inspections",
        ["product_id", "revision", "time", "id"],
        unique=False,
    )
    connection = op.get_bind()
    found: dict[Key, Sums] = {}
    question = "SELECT product_id, time, verdict, score, strength FROM inspections"
    for product, time, verdict, score, strength in connection.execute(sa.text(question)):
        for key in periods_of(product, time):
            found.setdefault(key, Sums()).add(verdict, score, strength)
    rows = [
        {"product_id": product, "length": length, "start": start, **vars(sums)}
        for (product, length, start), sums in found.items()
    ]
    if rows:
        connection.execute(periods.insert(), rows)
