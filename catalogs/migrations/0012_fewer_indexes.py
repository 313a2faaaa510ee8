"""No index that another one begins with, and none for LIKE on digests, which nobody asks."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

LIKE_ENDS = "_like"
KEYS = {"catalogs_blob": "sha256", "catalogs_icon": "sha256", "catalogs_package": "icon_id"}


def drop_like(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """PostgreSQL only: Django makes them beside each index of a text."""
    connection = schema_editor.connection
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        for table, column in KEYS.items():
            found = connection.introspection.get_constraints(cursor, table)
            for name, index in found.items():
                if name.endswith(LIKE_ENDS) and index["columns"] == [column]:
                    schema_editor.execute(f"DROP INDEX {connection.ops.quote_name(name)}")


class Migration(migrations.Migration):
    dependencies = [
        ("catalogs", "0011_predictions_judged"),
    ]

    operations = [
        migrations.AlterField(
            model_name="bundle",
            name="package",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="bundles",
                to="catalogs.package",
            ),
        ),
        migrations.AlterField(
            model_name="channel",
            name="package",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="channels",
                to="catalogs.package",
            ),
        ),
        migrations.AlterField(
            model_name="package",
            name="catalog",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="packages",
                to="catalogs.catalog",
            ),
        ),
        migrations.RunPython(drop_like, migrations.RunPython.noop),
    ]
