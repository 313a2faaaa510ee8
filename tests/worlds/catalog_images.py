"""Reading images of the fake registry, for the tests of image sources."""

import tarfile

import pytest

from catalogs.sources.base import SourceError, opened
from catalogs.sources.oci.source import ImageSource, RegistryAccess
from tests.worlds.image_registry_fake import RegistryFake, tar

ONE, TWO, THREE = (b'{"schema":"olm.package","name":"%d"}' % n for n in (1, 2, 3))
CATALOG = tar(("configs/a.json", ONE), ("configs/b/c.json", TWO))
FILES = {"a.json": ONE, "b/c.json": TWO}


def source(fake: RegistryFake, wanted: str = ":v1", **options) -> ImageSource:
    options = {"access": RegistryAccess(frozenset([fake.host])), **options}
    return ImageSource(f"{fake.host}/olm/catalog{wanted}", **options)


def files(fake: RegistryFake, wanted: str = ":v1", **options) -> dict[str, bytes]:
    """Name and content of every file of the catalog."""
    with opened(source(fake, wanted, **options)) as fetched:
        assert fetched.body is not None
        body = fetched.body.read()
        starts = [start for start, _ in fetched.files]
        ends = [*(start - 1 for start in starts[1:]), len(body)]
        return {
            name: body[start:end] for (start, name), end in zip(fetched.files, ends, strict=True)
        }


def failure(fake: RegistryFake, wanted: str = ":v1", **options) -> SourceError:
    with pytest.raises(SourceError) as caught, opened(source(fake, wanted, **options)):
        pass
    return caught.value


def folder(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info
