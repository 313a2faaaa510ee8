import json

import django.db.models.deletion
import zstandard
from django.db import migrations, models

CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def add_names(apps, schema_editor):
    """The CRDs of the images that are inspected already."""
    manifests = apps.get_model("catalogs", "BundleManifests")
    crds = apps.get_model("catalogs", "InspectedCRD")
    for digest in list(manifests.objects.values_list("digest", flat=True)):
        row = manifests.objects.get(digest=digest)
        try:
            text = zstandard.ZstdDecompressor().decompress(
                bytes(row.data), max_output_size=row.size
            )
            objects = json.loads(text)["objects"]
        except (zstandard.ZstdError, ValueError, KeyError, RecursionError):
            continue  # is inspected again where it matters
        names = {
            str((item.get("metadata") or {}).get("name") or "")
            for item in objects
            if (item.get("apiVersion"), item.get("kind")) == CRD
        }
        crds.objects.bulk_create(
            crds(manifests=row, name=name) for name in sorted(names) if 0 < len(name) <= 253
        )


class Migration(migrations.Migration):

    dependencies = [
        ('catalogs', '0009_registry_mirrors'),
    ]

    operations = [
        migrations.CreateModel(
            name='InspectedCRD',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=253)),
                ('manifests', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='crds', to='catalogs.bundlemanifests')),
            ],
            options={
                'verbose_name': 'inspected CRD',
                'constraints': [models.UniqueConstraint(fields=('name', 'manifests'), name='inspected_crd_once')],
            },
        ),
        migrations.RunPython(add_names, migrations.RunPython.noop),
    ]
