"""No foreign keys looked up row by row in large tables; no attempt to compress packs again."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def keep_packs_as_they_are(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(
            "ALTER TABLE catalogs_blobpack ALTER COLUMN data SET STORAGE EXTERNAL"
        )


class Migration(migrations.Migration):
    dependencies = [
        ("catalogs", "0007_problem_places"),
    ]

    operations = [
        migrations.AlterField(
            model_name="blob",
            name="pack",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="blobs",
                to="catalogs.blobpack",
            ),
        ),
        migrations.AlterField(
            model_name="blobref",
            name="blob",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                to="catalogs.blob",
            ),
        ),
        migrations.AlterField(
            model_name="bundlegvk",
            name="bundle",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="gvks",
                to="catalogs.bundle",
            ),
        ),
        migrations.AlterField(
            model_name="channelentry",
            name="channel",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="entries",
                to="catalogs.channel",
            ),
        ),
        migrations.AlterField(
            model_name="relatedimage",
            name="bundle",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="related_images",
                to="catalogs.bundle",
            ),
        ),
        migrations.RunPython(keep_packs_as_they_are, migrations.RunPython.noop),
    ]
