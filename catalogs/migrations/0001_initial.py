"""The tables of catalogs; the last operation adds what Django's models cannot express.

SQLite: an FTS5 table over the column `words` of the package search (the text is not stored twice),
updated by triggers.
PostgreSQL: an index of an expression for the same column. The words are stored folded and cut, so
no text search configuration is involved. The function forces the use of that index: the planner
would read every row, because it estimates building a tsvector as cheap as an addition. Packs hold
compressed data, so PostgreSQL must not compress them again. The indexes Django adds for LIKE on
digests are dropped, because no query uses LIKE on them.
"""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from catalogs.models import DigestStart

SEARCH = "catalogs_packagesearch"
FTS = f"{SEARCH}_fts"
FTS_DELETE = f"INSERT INTO {FTS} ({FTS}, rowid, words) VALUES ('delete', old.package_id, old.words);"  # noqa: S608
FTS_INSERT = f"INSERT INTO {FTS} (rowid, words) VALUES (new.package_id, new.words);"  # noqa: S608
VECTOR = "array_to_tsvector(string_to_array(words, ' '))"
QUOTED_VECTOR = VECTOR.replace("'", "''")
STATEMENTS = {
    "sqlite": (
        f"CREATE VIRTUAL TABLE {FTS} USING fts5(words, content='{SEARCH}', "
        "content_rowid='package_id', tokenize='unicode61 remove_diacritics 0', detail=none)",
        f"CREATE TRIGGER {FTS}_insert AFTER INSERT ON {SEARCH} BEGIN {FTS_INSERT} END",
        f"CREATE TRIGGER {FTS}_delete AFTER DELETE ON {SEARCH} BEGIN {FTS_DELETE} END",
        f"CREATE TRIGGER {FTS}_update AFTER UPDATE ON {SEARCH} BEGIN {FTS_DELETE} {FTS_INSERT} END",
    ),
    "postgresql": (
        f"CREATE INDEX {SEARCH}_words ON {SEARCH} USING gin ({VECTOR})",
        f"CREATE FUNCTION {SEARCH}_with(query tsquery) RETURNS bigint[] LANGUAGE sql STABLE "  # noqa: S608
        "SET enable_seqscan = off "
        f"AS 'SELECT array_agg(package_id) FROM {SEARCH} WHERE {QUOTED_VECTOR} @@ query'",
        "ALTER TABLE catalogs_blobpack ALTER COLUMN data SET STORAGE EXTERNAL",
    ),
}
REVERSE_STATEMENTS = {
    "sqlite": (
        *(f"DROP TRIGGER {FTS}_{event}" for event in ("insert", "delete", "update")),
        f"DROP TABLE {FTS}",
    ),
    "postgresql": (f"DROP FUNCTION {SEARCH}_with(tsquery)", f"DROP INDEX {SEARCH}_words"),
}
DIGEST_COLUMNS = {
    "catalogs_blob": "sha256",
    "catalogs_icon": "sha256",
    "catalogs_package": "icon_id",
}


def add_database_specifics(_apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    for statement in STATEMENTS[connection.vendor]:
        schema_editor.execute(statement)
    if connection.vendor != "postgresql":
        return
    # Django creates the indexes of new tables only at the end of the migration.
    while schema_editor.deferred_sql:
        schema_editor.execute(schema_editor.deferred_sql.pop(0), params=None)
    with connection.cursor() as cursor:
        for table, column in DIGEST_COLUMNS.items():
            constraints = connection.introspection.get_constraints(cursor, table)
            for name, index in constraints.items():
                if name.endswith("_like") and index["columns"] == [column]:
                    schema_editor.execute(f"DROP INDEX {connection.ops.quote_name(name)}")


def remove_database_specifics(_apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for statement in REVERSE_STATEMENTS[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('olmweb', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='BlobPack',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('size', models.PositiveIntegerField()),
                ('data', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='BundleManifests',
            fields=[
                ('digest', models.CharField(max_length=140, primary_key=True, serialize=False)),
                ('data', models.BinaryField()),
                ('size', models.PositiveIntegerField()),
                ('objects_held', models.PositiveIntegerField()),
            ],
            options={
                'verbose_name_plural': 'bundle manifests',
            },
        ),
        migrations.CreateModel(
            name='Channel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=300)),
                ('head', models.CharField(blank=True, max_length=500)),
                ('head_version', models.CharField(blank=True, max_length=200)),
                ('is_default', models.BooleanField(default=False)),
                ('deprecated', models.BooleanField(default=False)),
                ('deprecation', models.TextField(blank=True)),
                ('entry_count', models.PositiveIntegerField(default=0)),
            ],
            options={
                'ordering': ('package', 'name'),
            },
        ),
        migrations.CreateModel(
            name='Icon',
            fields=[
                ('sha256', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('media_type', models.CharField(max_length=40)),
                ('data', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='Package',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=253)),
                ('content_hash', models.CharField(max_length=64)),
                ('display_name', models.CharField(blank=True, max_length=300)),
                ('summary', models.CharField(blank=True, max_length=500)),
                ('provider', models.CharField(blank=True, max_length=300)),
                ('default_channel', models.CharField(blank=True, max_length=300)),
                ('head_bundle', models.CharField(blank=True, max_length=500)),
                ('head_version', models.CharField(blank=True, max_length=200)),
                ('categories', models.JSONField(default=list)),
                ('keywords', models.JSONField(default=list)),
                ('capability', models.CharField(blank=True, max_length=60)),
                ('infrastructure_features', models.JSONField(default=list)),
                ('install_modes', models.JSONField(default=list)),
                ('deprecated', models.BooleanField(default=False)),
                ('deprecation', models.TextField(blank=True)),
                ('channel_count', models.PositiveIntegerField(default=0)),
                ('bundle_count', models.PositiveIntegerField(default=0)),
            ],
            options={
                'ordering': ('name',),
            },
        ),
        migrations.CreateModel(
            name='Blob',
            fields=[
                ('sha256', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('start', models.PositiveIntegerField(default=0)),
                ('size', models.PositiveIntegerField()),
                ('pack', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='blobs', to='catalogs.blobpack')),
            ],
        ),
        migrations.CreateModel(
            name='BundleInspection',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('image', models.CharField(max_length=1000, unique=True)),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('reading', 'Reading'), ('read', 'Read'), ('failed', 'Failed')], default='queued', max_length=20)),
                ('asked_by', models.CharField(blank=True, max_length=150)),
                ('asked_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('done', models.PositiveBigIntegerField(default=0)),
                ('total', models.PositiveBigIntegerField(default=0)),
                ('requests', models.PositiveIntegerField(default=0)),
                ('bytes_read', models.PositiveBigIntegerField(default=0)),
                ('error_code', models.CharField(blank=True, max_length=60)),
                ('error_text', models.TextField(blank=True)),
                ('error_hint', models.TextField(blank=True)),
                ('manifests', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='catalogs.bundlemanifests')),
            ],
            options={
                'ordering': ('-asked_at', '-id'),
            },
        ),
        migrations.CreateModel(
            name='Catalog',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source_kind', models.CharField(choices=[('ClusterCatalog', 'Cluster Catalog'), ('CatalogSource', 'Catalog Source'), ('PackageManifest', 'Package Manifest'), ('File', 'File'), ('URL', 'Url'), ('Image', 'Image')], max_length=20)),
                ('namespace', models.CharField(blank=True, max_length=63)),
                ('name', models.CharField(max_length=253)),
                ('slug', models.CharField(db_index=True, max_length=253)),
                ('source', models.CharField(blank=True, max_length=2000)),
                ('access_methods', models.JSONField(blank=True, default=list)),
                ('access_method', models.CharField(blank=True, max_length=40)),
                ('priority', models.IntegerField(default=0)),
                ('availability', models.CharField(default='Available', max_length=20)),
                ('resolved_digest', models.CharField(blank=True, max_length=1000)),
                ('base_url', models.CharField(blank=True, max_length=2000)),
                ('conditions', models.JSONField(blank=True, default=list)),
                ('synced_digest', models.CharField(blank=True, max_length=1000)),
                ('last_modified', models.CharField(blank=True, max_length=60)),
                ('content_hash', models.CharField(blank=True, max_length=64)),
                ('derivation', models.PositiveIntegerField(default=0)),
                ('state', models.CharField(choices=[('new', 'New'), ('serving', 'Serving'), ('failed', 'Failed'), ('disabled', 'Disabled')], default='new', max_length=20)),
                ('error_code', models.CharField(blank=True, max_length=60)),
                ('error_text', models.TextField(blank=True)),
                ('error_hint', models.TextField(blank=True)),
                ('failing_since', models.DateTimeField(blank=True, null=True)),
                ('checked_at', models.DateTimeField(blank=True, null=True)),
                ('synced_at', models.DateTimeField(blank=True, null=True)),
                ('changed_at', models.DateTimeField(blank=True, null=True)),
                ('last_cost', models.CharField(blank=True, max_length=100)),
                ('revision', models.PositiveIntegerField(default=0)),
                ('package_count', models.PositiveIntegerField(default=0)),
                ('channel_count', models.PositiveIntegerField(default=0)),
                ('bundle_count', models.PositiveIntegerField(default=0)),
                ('problem_count', models.PositiveIntegerField(default=0)),
                ('cluster', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='catalogs', to='olmweb.cluster')),
            ],
            options={
                'ordering': ('cluster__name', 'name'),
            },
        ),
        migrations.CreateModel(
            name='BlobRef',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('package', models.CharField(blank=True, max_length=253)),
                ('schema', models.CharField(blank=True, max_length=253)),
                ('name', models.CharField(blank=True, max_length=500)),
                ('ordinal', models.PositiveIntegerField()),
                ('blob', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to='catalogs.blob')),
                ('catalog', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='blob_refs', to='catalogs.catalog')),
            ],
            options={
                'ordering': ('catalog', 'package', 'ordinal'),
            },
        ),
        migrations.CreateModel(
            name='CatalogRevision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('content_hash', models.CharField(max_length=64)),
                ('digest', models.CharField(blank=True, max_length=1000)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('counts', models.JSONField(default=dict)),
                ('catalog', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='revisions', to='catalogs.catalog')),
            ],
            options={
                'ordering': ('-number',),
            },
        ),
        migrations.CreateModel(
            name='CatalogChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('package added', 'Package Added'), ('package removed', 'Package Removed'), ('bundle added', 'Bundle Added'), ('bundle removed', 'Bundle Removed'), ('bundle pruned', 'Bundle Pruned'), ('bundle changed', 'Bundle Changed'), ('images changed', 'Images Changed'), ('channel added', 'Channel Added'), ('channel removed', 'Channel Removed'), ('channel changed', 'Channel Changed'), ('channel head moved', 'Head Moved'), ('default channel changed', 'Default Channel Changed'), ('deprecated', 'Deprecated'), ('no longer deprecated', 'Undeprecated')], max_length=30)),
                ('package', models.CharField(max_length=253)),
                ('subject', models.CharField(blank=True, max_length=500)),
                ('before', models.CharField(blank=True, max_length=500)),
                ('after', models.CharField(blank=True, max_length=500)),
                ('revision', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='changes', to='catalogs.catalogrevision')),
            ],
            options={
                'ordering': ('id',),
            },
        ),
        migrations.CreateModel(
            name='ChannelEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('ordinal', models.PositiveIntegerField()),
                ('name', models.CharField(max_length=500)),
                ('replaces', models.CharField(blank=True, max_length=500)),
                ('skips', models.JSONField(default=list)),
                ('skip_range', models.CharField(blank=True, max_length=500)),
                ('channel', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='entries', to='catalogs.channel')),
            ],
            options={
                'ordering': ('channel', 'ordinal'),
            },
        ),
        migrations.CreateModel(
            name='ContentProblem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('package', models.CharField(blank=True, max_length=253)),
                ('subject', models.CharField(blank=True, max_length=500)),
                ('field', models.CharField(blank=True, max_length=200)),
                ('code', models.CharField(max_length=60)),
                ('severity', models.CharField(choices=[('error', 'Error'), ('warning', 'Warning')], max_length=10)),
                ('message', models.TextField()),
                ('offset', models.PositiveBigIntegerField(blank=True, null=True)),
                ('file', models.CharField(blank=True, max_length=500)),
                ('line', models.PositiveIntegerField(blank=True, null=True)),
                ('excerpt', models.CharField(blank=True, max_length=200)),
                ('catalog', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='problems', to='catalogs.catalog')),
            ],
            options={
                'ordering': ('catalog', 'package', 'id'),
            },
        ),
        migrations.CreateModel(
            name='PackageSearch',
            fields=[
                ('package', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='search', serialize=False, to='catalogs.package')),
                ('words', models.TextField(blank=True)),
                ('provides', models.JSONField(default=list)),
                ('provided_before', models.JSONField(default=list)),
                ('repositories', models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name='PackageText',
            fields=[
                ('package', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='text', serialize=False, to='catalogs.package')),
                ('description_html', models.TextField(blank=True)),
                ('links', models.JSONField(default=list)),
                ('maintainers', models.JSONField(default=list)),
            ],
        ),
        migrations.AddField(
            model_name='package',
            name='catalog',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='packages', to='catalogs.catalog'),
        ),
        migrations.AddField(
            model_name='package',
            name='icon',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='catalogs.icon'),
        ),
        migrations.AddField(
            model_name='channel',
            name='package',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='channels', to='catalogs.package'),
        ),
        migrations.CreateModel(
            name='Bundle',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=500)),
                ('ordinal', models.PositiveIntegerField(default=0)),
                ('version', models.CharField(blank=True, max_length=200)),
                ('release', models.CharField(blank=True, max_length=100)),
                ('version_key', models.CharField(blank=True, max_length=400)),
                ('image', models.CharField(blank=True, max_length=1000)),
                ('display_name', models.CharField(blank=True, max_length=300)),
                ('install_modes', models.JSONField(default=list)),
                ('install_modes_known', models.BooleanField(default=False)),
                ('webhooks', models.PositiveIntegerField(blank=True, null=True)),
                ('owned_api_services', models.PositiveIntegerField(blank=True, null=True)),
                ('min_kube_version', models.CharField(blank=True, max_length=60)),
                ('max_openshift_version', models.CharField(blank=True, max_length=60)),
                ('suggested_namespace', models.CharField(blank=True, max_length=200)),
                ('released_at', models.CharField(blank=True, max_length=60)),
                ('deprecated', models.BooleanField(default=False)),
                ('deprecation', models.TextField(blank=True)),
                ('required_packages', models.JSONField(default=list)),
                ('constraint_count', models.PositiveIntegerField(default=0)),
                ('blob', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, to='catalogs.blob')),
                ('package', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='bundles', to='catalogs.package')),
            ],
            options={
                'ordering': ('package', '-version_key', 'name', 'ordinal'),
            },
        ),
        migrations.CreateModel(
            name='PackageOutline',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('package', models.CharField(max_length=253)),
                ('first', models.PositiveIntegerField()),
                ('last', models.PositiveIntegerField(blank=True, null=True)),
                ('content_hash', models.CharField(max_length=64)),
                ('data', models.BinaryField()),
                ('catalog', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='outlines', to='catalogs.catalog')),
            ],
            options={
                'ordering': ('catalog', 'package', 'first'),
            },
        ),
        migrations.CreateModel(
            name='Prediction',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('path', models.CharField(max_length=20)),
                ('target', models.CharField(max_length=5)),
                ('chosen', models.BooleanField(default=False)),
                ('channel', models.CharField(blank=True, max_length=300)),
                ('verdict', models.CharField(max_length=20)),
                ('rule', models.CharField(blank=True, max_length=60)),
                ('sentence', models.TextField(blank=True)),
                ('results', models.JSONField(default=list)),
                ('bundle', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='catalogs.bundle')),
                ('cluster', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='olmweb.cluster')),
                ('package', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='catalogs.package')),
            ],
            options={
                'ordering': ('package', 'bundle', 'path', 'target'),
            },
        ),
        migrations.CreateModel(
            name='PredictionRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('revision', models.PositiveIntegerField(default=0)),
                ('rules_version', models.PositiveIntegerField()),
                ('inputs', models.CharField(max_length=64)),
                ('counts', models.JSONField(default=dict)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('evaluated_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('catalog', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='prediction_runs', to='catalogs.catalog')),
                ('cluster', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='olmweb.cluster')),
            ],
            options={
                'ordering': ('-id',),
            },
        ),
        migrations.CreateModel(
            name='RelatedImage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(blank=True, max_length=500)),
                ('image', models.CharField(blank=True, max_length=1000)),
                ('bundle', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='related_images', to='catalogs.bundle')),
            ],
            options={
                'ordering': ('id',),
            },
        ),
        migrations.CreateModel(
            name='BundleGVK',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('group', models.CharField(max_length=253)),
                ('version', models.CharField(max_length=63)),
                ('kind', models.CharField(max_length=100)),
                ('required', models.BooleanField(default=False)),
                ('bundle', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='gvks', to='catalogs.bundle')),
            ],
            options={
                'ordering': ('group', 'kind', 'version'),
                'indexes': [models.Index(fields=['group', 'kind', 'required'], name='catalogs_bu_group_40c05d_idx')],
            },
        ),
        migrations.AddConstraint(
            model_name='catalog',
            constraint=models.UniqueConstraint(fields=('cluster', 'slug'), name='catalog_slug_in_cluster'),
        ),
        migrations.AddConstraint(
            model_name='catalog',
            constraint=models.UniqueConstraint(condition=models.Q(('cluster', None)), fields=('slug',), name='catalog_slug_without_cluster'),
        ),
        migrations.AddIndex(
            model_name='blobref',
            index=models.Index(fields=['catalog', 'package'], name='catalogs_bl_catalog_37c2ba_idx'),
        ),
        migrations.AddIndex(
            model_name='blobref',
            index=models.Index(fields=['blob'], name='catalogs_blobref_blob'),
        ),
        migrations.AddConstraint(
            model_name='catalogrevision',
            constraint=models.UniqueConstraint(fields=('catalog', 'number'), name='revision_number'),
        ),
        migrations.AddIndex(
            model_name='package',
            index=models.Index(fields=['name', 'catalog'], name='catalogs_pa_name_bc448e_idx'),
        ),
        migrations.AddConstraint(
            model_name='package',
            constraint=models.UniqueConstraint(fields=('catalog', 'name'), name='package_in_catalog'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.UniqueConstraint(fields=('package', 'name'), name='channel_in_package'),
        ),
        migrations.AddIndex(
            model_name='bundle',
            index=models.Index(fields=['name'], name='catalogs_bu_name_ea5ddd_idx'),
        ),
        migrations.AddIndex(
            model_name='bundle',
            index=models.Index(DigestStart('image'), name='bundle_image_digest'),
        ),
        migrations.AddConstraint(
            model_name='bundle',
            constraint=models.UniqueConstraint(fields=('package', 'name', 'ordinal'), name='bundle_in_package'),
        ),
        migrations.AddConstraint(
            model_name='packageoutline',
            constraint=models.UniqueConstraint(fields=('catalog', 'package', 'first'), name='outline_of_package'),
        ),
        migrations.AddIndex(
            model_name='prediction',
            index=models.Index(condition=models.Q(('chosen', True)), fields=['package', 'path'], name='prediction_chosen'),
        ),
        migrations.AddIndex(
            model_name='predictionrun',
            index=models.Index(fields=['catalog', 'cluster', '-id'], name='catalogs_pr_catalog_a53fb3_idx'),
        ),
        migrations.AddIndex(
            model_name='relatedimage',
            index=models.Index(DigestStart('image'), name='related_image_digest'),
        ),
        migrations.RunPython(add_database_specifics, remove_database_specifics),
    ]
