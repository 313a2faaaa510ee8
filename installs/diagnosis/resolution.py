"""Whom a failed resolution is about. OLM writes the failure to every Subscription of a namespace.

Pure text: the messages are those of OLM v0's resolver.
"""

import re

from installs.diagnosis.types import Observation

_TEXT_LIMIT = 32_768
_CATALOG = re.compile(
    r"error using catalogsource (?P<namespace>[^/\s]{1,300})/(?P<name>[^:\s]{1,300}):"
)
_EMPTY_CATALOG = re.compile(
    r"no operators found from catalog (?P<name>\S{1,300}) in namespace (?P<namespace>\S{1,300})"
    r" referenced by subscription"
)
_SUBSCRIPTIONS = re.compile(
    r"referenced by subscription (?P<a>[^,\s]{1,300})"
    r"|criteria of subscription (?P<b>[^,\s]{1,300})"
    r"|(?<!\w)subscription (?P<c>[^,\s]{1,300}) (?:exists|requires)"
    r"|status\.installedCSV of subscription [^/\s]{1,300}/(?P<d>[^:\s]{1,300})"
)
_PACKAGE = re.compile(
    r'channel "[^"]{0,300}" of package "(?P<a>[^"]{1,300})"'
    r"|originate from package (?P<b>[^,\s]{1,300})"
    r"|only one operator from package (?P<c>[^,\s]{1,300})"
)


def blamed_catalog(message: str) -> tuple[str, str] | None:
    """Namespace and name of the CatalogSource that keeps OLM from resolving, None for none."""
    cut = message[:_TEXT_LIMIT]
    found = _CATALOG.search(cut) or _EMPTY_CATALOG.search(cut)
    return (found["namespace"], found["name"]) if found else None


def blocked_by(subject: Observation, message: str) -> str:
    """The other Subscription that the message is about, empty when it is about this one.

    A broken channel names only its package: then the answer is `the one for package NAME`. A
    message that names nobody is everybody's.
    """
    named = _names(_SUBSCRIPTIONS, message)
    if named:
        return "" if subject.name in named else named[0]
    packages = _names(_PACKAGE, message)
    own = subject.extra.get("package", "")
    if packages and own and own not in packages:
        return f"the one for package {packages[0]}"
    return ""


def _names(pattern: re.Pattern[str], message: str) -> list[str]:
    return [
        name for found in pattern.finditer(message[:_TEXT_LIMIT]) for name in found.groups() if name
    ]
