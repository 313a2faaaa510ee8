from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('installs', '0004_action_keys'),
    ]

    operations = [
        migrations.AlterField(
            model_name='action',
            name='state',
            field=models.CharField(choices=[('pending', 'Pending'), ('applied', 'Applied'), ('succeeded', 'Succeeded'), ('no_change', 'No change'), ('failed', 'Failed'), ('refused', 'Refused'), ('lost', 'Lost'), ('stopped', 'Stopped')], default='pending', max_length=20),
        ),
    ]
