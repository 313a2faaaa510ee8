from django.apps import AppConfig


class OlmwebConfig(AppConfig):
    name = "olmweb"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from olmweb.accounts import audit

        audit.connect()
