"""What packages are found by, with the full text index of each database kept by itself.

SQLite: an FTS5 table over the model's own column (no text stored twice), kept by triggers.
PostgreSQL: an index of an expression; words come folded and cut, so that no configuration is
involved. The function asks that index: left to itself the planner reads every row instead, because
it takes the making of a tsvector for as cheap as an addition.
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
VECTOR = "array_to_tsvector(string_to_array(words, ' '))"
QUOTED = VECTOR.replace("'", "''")
MAKE = {
    "sqlite": (
        f"CREATE VIRTUAL TABLE {FTS} USING fts5(words, content='{TABLE}', "
        "content_rowid='package_id', tokenize='unicode61 remove_diacritics 0', detail=none)",
        f"CREATE TRIGGER {FTS}_insert AFTER INSERT ON {TABLE} BEGIN {LEARN} END",
        f"CREATE TRIGGER {FTS}_delete AFTER DELETE ON {TABLE} BEGIN {FORGET} END",
        f"CREATE TRIGGER {FTS}_update AFTER UPDATE ON {TABLE} BEGIN {FORGET} {LEARN} END",
    ),
    "postgresql": (
        f"CREATE INDEX {TABLE}_words ON {TABLE} USING gin ({VECTOR})",
        f"CREATE FUNCTION {TABLE}_with(asked tsquery) RETURNS bigint[] LANGUAGE sql STABLE "  # noqa: S608
        "SET enable_seqscan = off "
        f"AS 'SELECT array_agg(package_id) FROM {TABLE} WHERE {QUOTED} @@ asked'",
    ),
}
UNMAKE = {
    "sqlite": (
        *(f"DROP TRIGGER {FTS}_{event}" for event in ("insert", "delete", "update")),
        f"DROP TABLE {FTS}",
    ),
    "postgresql": (f"DROP FUNCTION {TABLE}_with(tsquery)", f"DROP INDEX {TABLE}_words"),
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
