"""What packages are found by, with the full text index of each database kept by itself.

SQLite: an FTS5 table over the model's own column (no text stored twice), kept by triggers.
PostgreSQL: a generated tsvector; words come folded and cut, so that no configuration is involved.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from catalogs.models import DigestStart

TABLE = "catalogs_packagesearch"
FTS = f"{TABLE}_fts"
FORGET = f"INSERT INTO {FTS} ({FTS}, rowid, words) VALUES ('delete', old.package_id, old.words);"  # noqa: S608
LEARN = f"INSERT INTO {FTS} (rowid, words) VALUES (new.package_id, new.words);"  # noqa: S608
MAKE = {
    "sqlite": (
        f"CREATE VIRTUAL TABLE {FTS} USING fts5(words, content='{TABLE}', "
        "content_rowid='package_id', tokenize='unicode61 remove_diacritics 0', detail=none)",
        f"CREATE TRIGGER {FTS}_insert AFTER INSERT ON {TABLE} BEGIN {LEARN} END",
        f"CREATE TRIGGER {FTS}_delete AFTER DELETE ON {TABLE} BEGIN {FORGET} END",
        f"CREATE TRIGGER {FTS}_update AFTER UPDATE ON {TABLE} BEGIN {FORGET} {LEARN} END",
    ),
    "postgresql": (
        f"ALTER TABLE {TABLE} ADD COLUMN vector tsvector GENERATED ALWAYS AS "
        "(array_to_tsvector(string_to_array(words, ' '))) STORED",
        f"CREATE INDEX {TABLE}_vector ON {TABLE} USING gin (vector)",
    ),
}
UNMAKE = {
    "sqlite": (
        *(f"DROP TRIGGER {FTS}_{event}" for event in ("insert", "delete", "update")),
        f"DROP TABLE {FTS}",
    ),
    "postgresql": (f"ALTER TABLE {TABLE} DROP COLUMN vector",),
}


def make(_apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for statement in MAKE[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


def unmake(_apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for statement in UNMAKE[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [
        ("catalogs", "0005_blobs_in_packs"),
    ]

    operations = [
        migrations.CreateModel(
            name="PackageSearch",
            fields=[
                (
                    "package",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="search",
                        serialize=False,
                        to="catalogs.package",
                    ),
                ),
                ("words", models.TextField(blank=True)),
                ("provides", models.JSONField(default=list)),
                ("provided_before", models.JSONField(default=list)),
                ("repositories", models.JSONField(default=list)),
            ],
        ),
        migrations.RemoveField(model_name="package", name="search_text"),
        migrations.AddIndex(
            model_name="bundle",
            index=models.Index(DigestStart("image"), name="bundle_image_digest"),
        ),
        migrations.AddIndex(
            model_name="relatedimage",
            index=models.Index(DigestStart("image"), name="related_image_digest"),
        ),
        migrations.RunPython(make, unmake),
    ]
