from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('olmweb', '0009_catalog_events'),
    ]

    operations = [
        migrations.AddField(
            model_name='preferences',
            name='notifications_read_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
