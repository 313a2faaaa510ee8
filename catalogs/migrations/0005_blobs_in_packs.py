"""Apart from the move before it: PostgreSQL alters no table that has rows written just now."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalogs", "0004_blob_packs"),
    ]

    operations = [
        migrations.RemoveField(model_name="blob", name="data"),
        migrations.AlterField(
            model_name="blob",
            name="pack",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="blobs",
                to="catalogs.blobpack",
            ),
        ),
        migrations.AlterField(
            model_name="blobref",
            name="blob",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, to="catalogs.blob"
            ),
        ),
        migrations.AddIndex(
            model_name="blobref",
            index=models.Index(fields=["blob"], name="catalogs_blobref_blob"),
        ),
        migrations.AlterField(
            model_name="bundle",
            name="blob",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="catalogs.blob",
            ),
        ),
    ]
