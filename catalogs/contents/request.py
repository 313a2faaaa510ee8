"""Asking for the inspection of a bundle's image, from a page or by REST: who may, and for what."""

from catalogs.contents import inspect
from catalogs.models import Bundle, BundleInspection
from olmweb.accounts.roles import AnyUser, may_inspect
from olmweb.errors import OlmwebError
from olmweb.tasks import enqueue

WHO = 150  # characters of a name, as the column holds


def ask_inspection(bundle: Bundle, user: AnyUser) -> tuple[BundleInspection, bool]:
    """The image's inspection, and whether it is begun by this call; otherwise it goes on already.

    Raises OlmwebError: 403 for who may not, 409 for a bundle without anything to pull.
    """
    allowed, why = may_inspect(user)
    if not allowed:
        raise OlmwebError(
            why,
            code="not-allowed",
            status=403,
            hint="Ask an administrator of OLM Web for the role operator.",
        )
    if bundle.webhooks is not None or not bundle.image:
        why = "names no image" if not bundle.image else "has its objects in the catalog already"
        raise OlmwebError(
            f"Bundle {bundle.name} {why}: there is nothing to pull.",
            code="nothing-to-inspect",
            status=409,
        )
    row = inspect.ask(bundle.image, user.get_username()[:WHO])
    if row is None:
        return BundleInspection.objects.get(image=bundle.image), False
    enqueue("catalogs.inspect_bundle", row.pk)
    return row, True
