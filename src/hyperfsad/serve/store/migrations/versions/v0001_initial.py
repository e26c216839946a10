"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.String(length=12), nullable=False),
        sa.Column("client", sa.String(length=64), nullable=False),
        sa.Column("request", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=64), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_table(
        "images",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("suffix", sa.String(length=8), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("kept", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_images")),
    )
    op.create_index(op.f("ix_images_kept_added"), "images", ["kept", "added"], unique=False)
    op.create_table(
        "products",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("claimed", sa.String(length=200), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("detector", sa.String(length=64), nullable=True),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_products")),
        sa.UniqueConstraint("claimed", name=op.f("uq_products_claimed")),
    )
    op.create_table(
        "inspections",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("product_id", sa.String(length=32), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("image", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("verdict", sa.String(length=12), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=True),
        sa.Column("strength", sa.Double(), nullable=True),
        sa.Column("p_value", sa.Double(), nullable=True),
        sa.Column("regions", sa.Integer(), nullable=False),
        sa.Column("label", sa.String(length=8), nullable=True),
        sa.ForeignKeyConstraint(["image"], ["images.sha256"], name=op.f("fk_inspections_image")),
        sa.ForeignKeyConstraint(
            ["product_id"], ["products.id"], name=op.f("fk_inspections_product_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inspections")),
    )
    op.create_index(op.f("ix_inspections_image"), "inspections", ["image"], unique=False)
    op.create_index(
        op.f("ix_inspections_label_time_id"), "inspections", ["label", "time", "id"], unique=False
    )
    op.create_index(
        op.f("ix_inspections_product_id_time_id"),
        "inspections",
        ["product_id", "time", "id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_inspections_product_id_verdict_time_id"),
        "inspections",
        ["product_id", "verdict", "time", "id"],
        unique=False,
    )
    op.create_index(op.f("ix_inspections_time_id"), "inspections", ["time", "id"], unique=False)
    op.create_index(
        op.f("ix_inspections_verdict_time_id"),
        "inspections",
        ["verdict", "time", "id"],
        unique=False,
    )
    op.create_table(
        "support",
        sa.Column("product_id", sa.String(length=32), nullable=False),
        sa.Column("image", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["image"], ["images.sha256"], name=op.f("fk_support_image")),
        sa.ForeignKeyConstraint(
            ["product_id"], ["products.id"], name=op.f("fk_support_product_id")
        ),
        sa.PrimaryKeyConstraint("product_id", "image", name=op.f("pk_support")),
    )
    op.create_index(op.f("ix_support_image"), "support", ["image"], unique=False)
    op.create_table(
        "details",
        sa.Column("inspection_id", sa.String(length=32), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.Column("drawing", sa.JSON(), nullable=False),
        sa.Column("map", sa.LargeBinary(), nullable=False),
        sa.Column("thumbnail", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["inspection_id"], ["inspections.id"], name=op.f("fk_details_inspection_id")
        ),
        sa.PrimaryKeyConstraint("inspection_id", name=op.f("pk_details")),
    )
    op.create_table(
        "labels",
        sa.Column("inspection_id", sa.String(length=32), nullable=False),
        sa.Column("product_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("defect", sa.String(length=200), nullable=True),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.String(length=12), nullable=False),
        sa.Column("learnt", sa.Boolean(), nullable=False),
        sa.Column("before", sa.String(length=64), nullable=True),
        sa.Column("after", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(
            ["inspection_id"], ["inspections.id"], name=op.f("fk_labels_inspection_id")
        ),
        sa.ForeignKeyConstraint(["product_id"], ["products.id"], name=op.f("fk_labels_product_id")),
        sa.PrimaryKeyConstraint("inspection_id", name=op.f("pk_labels")),
    )
    op.create_index(op.f("ix_labels_product_id"), "labels", ["product_id"], unique=False)
