from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

if TYPE_CHECKING:
    from catalogs.models import Catalog


class InstallsConfig(AppConfig):
    name = "installs"
    verbose_name = "Installations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from installs.actions import authority
        from installs.notifications import receiver_audit
        from olmweb.accounts.roles import create_roles

        authority.connect_audit()
        receiver_audit.connect()

        # Of the last app: the permissions of all of ours exist when it is migrated.
        post_migrate.connect(create_roles, sender=self, dispatch_uid="olmweb-roles")

    def prepare_pages(self) -> None:
        """Loads the knowledge base, for the web server, which calls it before it serves."""
        from installs.diagnosis.entries import knowledge

        knowledge()

    def trouble_of_catalog(self, catalog: "Catalog") -> dict[str, Any]:
        """As installs.presenters.diagnosis, for views that find this app by its name only:
        catalogs must not import installs."""
        from installs.presenters.diagnosis import trouble_of_catalog

        return trouble_of_catalog(catalog)
