"""How a catalog at one of its revisions is written in URLs: CLUSTER/CATALOG@REVISION."""

from catalogs import queries
from catalogs.revisions.between import Point, find_point
from olmweb.errors import BadRequest


def read_point(value: str) -> Point:
    """The revision that CLUSTER/CATALOG@REVISION names; the current one without @REVISION.

    Raises BadRequest for another shape and Missing for what is not there.
    """
    place, at, number = value.rpartition("@")
    if not at or not (number.isascii() and number.isdigit() and len(number) <= 9):
        place, number = value, ""
    cluster, slash, slug = place.partition("/")
    if not (cluster and slash and slug):
        shown = "".join(char if char.isprintable() else " " for char in value[:100])
        raise BadRequest(
            f"“{shown}” names no catalog.",
            hint="Write CLUSTER/CATALOG or CLUSTER/CATALOG@REVISION, with - for no cluster.",
        )
    return find_point(queries.get_catalog(cluster, slug), int(number) if number else None)


def write_point(point: Point) -> str:
    """The text that `read_point` reads; without a revision for the current one, so that a bookmark
    goes on to mean what is current."""
    return str(point.catalog) if point.current else str(point)
