"""References know their cluster. Those that there are go: the next pass writes them anew."""

import django.db.models.deletion
from django.db import migrations, models


def forget(apps, schema_editor):
    apps.get_model("installs", "Reference").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("installs", "0003_deletions"),
        ("olmweb", "0003_assessed"),
    ]

    operations = [
        migrations.RunPython(forget, migrations.RunPython.noop),
        migrations.RemoveIndex(model_name="reference", name="installs_re_kind_f0f6ba_idx"),
        migrations.AddField(
            model_name="reference",
            name="cluster",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="olmweb.cluster"
            ),
        ),
        migrations.AddIndex(
            model_name="reference",
            index=models.Index(
                fields=["cluster", "kind", "namespace", "name"],
                name="installs_re_cluster_8a2814_idx",
            ),
        ),
    ]
