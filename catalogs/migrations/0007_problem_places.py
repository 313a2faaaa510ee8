from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalogs", "0006_package_search")]

    operations = [
        migrations.AddField(
            "contentproblem", "file", models.CharField(blank=True, default="", max_length=500),
            preserve_default=False,
        ),
        migrations.AddField(
            "contentproblem", "line", models.PositiveIntegerField(blank=True, null=True)
        ),
        migrations.AddField(
            "contentproblem", "excerpt", models.CharField(blank=True, default="", max_length=200),
            preserve_default=False,
        ),
    ]
