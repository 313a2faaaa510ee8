from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


class AdminConfig(admin_apps.AdminConfig):
    """Django's admin with our site: its groups, names and colours."""

    default_site = "olmweb.web.admin.AdminSite"


class OlmwebConfig(AppConfig):
    name = "olmweb"
    verbose_name = "OLM Web"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from olmweb.accounts import audit

        audit.connect()
