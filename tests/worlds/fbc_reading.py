"""A catalog's bytes read as sync reads them, without a database."""

import io

from catalogs.fbc.blob import ContentProblemRow
from catalogs.fbc.package import PackageReader
from catalogs.fbc.positions import Positions
from catalogs.fbc.split import CatalogIndex, NotFbc, PackageIndex, index_spool, read_blob


def read_package(data: bytes, name: str, part: PackageIndex) -> PackageReader:
    """The reader of one package, finished."""
    reader = PackageReader(name)
    for bundles in (False, True):
        for position, at in enumerate(part):
            if at.bundle != bundles:
                continue
            header, source = read_blob(data[at.offset : at.offset + at.length])
            if bundles:
                reader.read_bundle(source, at.offset, position)
            else:
                reader.read(header, source, at.offset)
    reader.finish()
    return reader


def read_catalog(data: bytes, files: tuple[tuple[int, str], ...] = ()) -> list[ContentProblemRow]:
    """Every problem of the catalog with its place; none of it when it isn't FBC at all."""
    try:
        index = index_spool(io.BytesIO(data), files=files)
    except NotFbc:
        index = CatalogIndex({}, ())
    places = Positions(lambda offset, length: data[offset : offset + length], files)
    found = places.fill(index.problems)
    for name, part in index.packages.items():
        found += places.fill(read_package(data, name, part).problems, part)
    return found
