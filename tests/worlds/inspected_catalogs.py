"""Catalogs whose bundles have their objects in images alone."""

from catalogs.models import Bundle, Catalog
from tests.factories import make_bundle, make_package
from tests.worlds.bundle_images import CRD, bundle_image, csv, files
from tests.worlds.image_registry_fake import RegistryFake, tar

BLOB = (
    '{{"schema":"olm.bundle","name":"{name}.v{version}","package":"{name}","properties":['
    '{{"type":"olm.package","value":{{"packageName":"{name}","version":"{version}"}}}}]}}'
)


def ship(catalog: Catalog, name: str, channels: dict[str, tuple[str, ...]], image: str) -> None:
    """A package whose bundles have `image` with their version for `{}` and no objects."""
    package = make_package(name=name, catalog=catalog, channels=channels)
    Bundle.objects.filter(package=package).delete()
    for version in sorted({version for entries in channels.values() for version in entries}):
        make_bundle(
            package=package,
            version=version,
            image=image.format(version),
            blob=BLOB.format(name=name, version=version).encode(),
        )


def ship_many(catalog: Catalog, fake: RegistryFake, count: int) -> list[str]:
    """So many packages, each with an image of its own; returns the digests."""
    digests = []
    for number in range(count):
        layer = tar(*files(csv(description=f"number {number}"), CRD))
        digests.append(bundle_image(fake, layer, tag=f"v{number}"))
        image = f"{fake.host}/olm/op{number}@{digests[-1]}"
        ship(catalog, f"op{number:02}", {"stable": ("1.0.0",)}, image)
    return digests
