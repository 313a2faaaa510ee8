"""The objects that OLM Web writes, made from form values. Pure: knows neither Django nor clusters.

`choice` says what may be chosen and what is wrong with it, `objects` makes the manifests of it.
"""

from installs.methods.choice import (
    AUTOMATIC,
    ENFORCEMENTS,
    FIELDS,
    MANUAL,
    POLICIES,
    Choice,
    default_name,
    form_field,
    problems,
)
from installs.methods.objects import as_yaml, main_object, objects_for

__all__ = [
    "AUTOMATIC",
    "ENFORCEMENTS",
    "FIELDS",
    "MANUAL",
    "POLICIES",
    "Choice",
    "as_yaml",
    "default_name",
    "form_field",
    "main_object",
    "objects_for",
    "problems",
]
