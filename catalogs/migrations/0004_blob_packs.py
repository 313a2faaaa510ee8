"""Blobs move into packs, one each: those synced from now on share theirs."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def move(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    blobs, packs = apps.get_model("catalogs", "Blob"), apps.get_model("catalogs", "BlobPack")
    for blob in blobs.objects.iterator(chunk_size=100):
        blob.pack = packs.objects.create(size=blob.size, data=blob.data)
        blob.save(update_fields=["pack"])


class Migration(migrations.Migration):
    dependencies = [
        ("catalogs", "0003_channel_changed"),
    ]

    operations = [
        migrations.CreateModel(
            name="BlobPack",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("size", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
            ],
        ),
        migrations.AddField(
            model_name="blob", name="start", field=models.PositiveIntegerField(default=0)
        ),
        migrations.AddField(
            model_name="blob",
            name="pack",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="blobs",
                to="catalogs.blobpack",
            ),
        ),
        migrations.RunPython(move, migrations.RunPython.noop),
    ]
