"""The database's full text index of packages: which have words that begin so.

Knows the two databases' ways (migration 0001_initial creates them), not what words mean or which
packages are better.
"""

import json
from collections.abc import Collection, Sequence

from django.db import connection

from catalogs.fbc.search_words import plain_text
from catalogs.models import PackageText

_TABLE = "catalogs_packagesearch"
# One row a word, all ids in it: thousands of rows would take longer than the looking for them.
_ONE = {
    "sqlite": f"SELECT %s, json_group_array(rowid) FROM {_TABLE}_fts WHERE {_TABLE}_fts MATCH %s",  # noqa: S608
    "postgresql": f"SELECT %s, {_TABLE}_with(%s::tsquery)",
}
# Words are letters and digits only (catalogs.fbc.search_words): nothing in them needs an escape.
_IS = {"sqlite": '"{}"', "postgresql": "'{}'"}
_BEGINS = {"sqlite": '"{}"*', "postgresql": "'{}':*"}
SHORT = 2  # characters of a word that must be the whole word: as a beginning it would be everywhere


def packages_with(words: Sequence[str]) -> list[set[int]]:
    """Per word of `words` (folded) the ids of packages that have a word beginning so, or for a
    short one that very word; one query."""
    if not words:
        return []
    vendor = connection.vendor
    asked: list[int | str] = []
    for i, word in enumerate(words):
        asked += (i, (_IS if len(word) <= SHORT else _BEGINS)[vendor].format(word))
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([_ONE[vendor]] * len(words)), asked)
        rows = dict(cursor.fetchall())
    found = (rows[i] or () for i in range(len(words)))  # PostgreSQL gives a list or nothing
    return [set(json.loads(ids) if isinstance(ids, str) else ids) for ids in found]


def descriptions_of(packages: Collection[int]) -> dict[int, str]:
    """Package id to its whole description as plain text in one line; one query."""
    if not packages:
        return {}
    texts = PackageText.objects.filter(package__in=packages)
    return {
        package: plain_text(html)
        for package, html in texts.values_list("package_id", "description_html")
    }
