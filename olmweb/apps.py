from django.apps import AppConfig


class OlmwebConfig(AppConfig):
    name = "olmweb"
    default_auto_field = "django.db.models.BigAutoField"
