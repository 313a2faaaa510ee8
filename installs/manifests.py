"""The objects that OLM Web writes, made from form values. Pure: knows neither Django nor clusters.

Rules of names: Kubernetes wants a DNS-1123 subdomain (RFC 1123); rukpak makes a Helm release of
the same name, and Helm allows 53 characters; the PlatformOperator CRD allows 56 for the package.
"""

import re
from typing import Any

import yaml

PLATFORM_OPERATOR = "PlatformOperator"
GROUP = "platform.openshift.io"
NAME_LIMIT = 53
PACKAGE_LIMIT = 56

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
# Field of the object -> field of the form that it is made from.
_FORM_FIELDS = {"metadata.name": "name", "spec.package.name": "package"}


def default_name(package: str) -> str:
    """A valid name for the PlatformOperator of this package: the package's own, cut if need be."""
    return package[:NAME_LIMIT].rstrip("-.")


def problems(name: str, package: str) -> dict[str, str]:
    """Form field -> sentence, for every value that the cluster would surely refuse."""
    found = {}
    if not name:
        found["name"] = "Give the PlatformOperator a name."
    elif len(name) > NAME_LIMIT:
        found["name"] = (
            f"The name has {len(name)} characters and may have {NAME_LIMIT}: "
            "it is also the name of the Helm release."
        )
    elif not _SUBDOMAIN.fullmatch(name):
        found["name"] = (
            "The name may have lower-case letters, digits, - and . only, and each part between "
            "dots starts and ends with a letter or digit."
        )
    if not package:
        found["package"] = "Choose a package."
    elif len(package) > PACKAGE_LIMIT:
        found["package"] = (
            f"The package's name has {len(package)} characters; a PlatformOperator allows "
            f"{PACKAGE_LIMIT}."
        )
    return found


def platform_operator(name: str, package: str, version: str = "v1alpha1") -> dict[str, Any]:
    """The PlatformOperator that installs `package`; only fields that OLM Web means to own."""
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": PLATFORM_OPERATOR,
        "metadata": {"name": name},
        "spec": {"package": {"name": package}},
    }


def as_yaml(manifest: dict[str, Any]) -> str:
    """The manifest as a person would write it, for the preview and for export."""
    return yaml.safe_dump(manifest, sort_keys=False)


def form_field(path: str) -> str:
    """The form field behind a field of the object, such as `.spec.package.name`; else the path."""
    path = path.removeprefix(".")
    return _FORM_FIELDS.get(path, path)
