"""No index that another one begins with: each is written at every change of an object."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("installs", "0013_surface_gates"),
        ("olmweb", "0004_oidc_identity"),
    ]

    operations = [
        migrations.AlterField(
            model_name="clusteroperator",
            name="cluster",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="olmweb.cluster",
            ),
        ),
        migrations.AlterField(
            model_name="component",
            name="cluster",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="olmweb.cluster",
            ),
        ),
        migrations.AlterField(
            model_name="crdstate",
            name="cluster",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="olmweb.cluster",
            ),
        ),
        migrations.AlterField(
            model_name="event",
            name="cluster",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="events",
                to="olmweb.cluster",
            ),
        ),
        migrations.AlterField(
            model_name="operator",
            name="cluster",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="olmweb.cluster",
            ),
        ),
        migrations.AlterField(
            model_name="reference",
            name="cluster",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="olmweb.cluster",
            ),
        ),
        migrations.AlterField(
            model_name="reference",
            name="operator",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="references",
                to="installs.operator",
            ),
        ),
        migrations.AlterField(
            model_name="transition",
            name="cluster",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="transitions",
                to="olmweb.cluster",
            ),
        ),
    ]
