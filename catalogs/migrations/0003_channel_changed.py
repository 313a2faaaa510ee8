from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('catalogs', '0002_catalog_engine'),
    ]

    operations = [
        migrations.AlterField(
            model_name='catalogchange',
            name='kind',
            field=models.CharField(choices=[('package added', 'Package Added'), ('package removed', 'Package Removed'), ('bundle added', 'Bundle Added'), ('bundle removed', 'Bundle Removed'), ('bundle pruned', 'Bundle Pruned'), ('bundle changed', 'Bundle Changed'), ('images changed', 'Images Changed'), ('channel added', 'Channel Added'), ('channel removed', 'Channel Removed'), ('channel changed', 'Channel Changed'), ('channel head moved', 'Head Moved'), ('default channel changed', 'Default Channel Changed'), ('deprecated', 'Deprecated'), ('no longer deprecated', 'Undeprecated')], max_length=30),
        ),
    ]
