"""Configurations of operators: `spec.config` read from text, and checked against a served schema.

The schema is that of a CustomResourceDefinition (Kubernetes, "Extend the Kubernetes API with
CustomResourceDefinitions", structural schemas). It is translated to JSON Schema, so that a person
gets the API server's answer before a request is sent: undeclared fields are refused, as by a
server-side apply, fields without a value are left out, and items of a list with keys are distinct.
Formats and CEL rules are left to the dry run. Pure.
"""

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jsonschema_rs

from catalogs.contents.crd_objects import json_schema
from catalogs.install_methods import InstallMethod
from olmweb.kube.documents import read_document

CONFIG = "config"  # form field, and the first part of every path
SIZE_LIMIT = 64 * 1024  # bytes of JSON; etcd takes 1.5 MB for the whole object
TEXT_LIMIT = 4 * SIZE_LIMIT  # characters of YAML
DEPTH_LIMIT = 30  # that of a Subscription's schema is 12
PROBLEMS_SHOWN = 20
_LISTED = 15  # fields named in a sentence
_SHOWN = 60  # characters of a value in a sentence

Schema = Mapping[str, Any]

INLINE = "Inline"  # the one configType of operator-controller 1.11
WATCH_NAMESPACE, DEPLOYMENT_CONFIG = "watchNamespace", "deploymentConfig"
# operator-controller 1.11, rukpak/bundle/registryv1bundleconfig.json: the fields of a Subscription
# without `selector`, which OLM never read.
_DEPLOYMENT_FIELDS: Schema = {
    "affinity": {"type": "object"},
    "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    "env": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    "envFrom": {"type": "array", "items": {"type": "object"}},
    "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
    "resources": {"type": "object"},
    "tolerations": {"type": "array", "items": {"type": "object"}},
    "volumeMounts": {
        "type": "array",
        "items": {"type": "object", "required": ["mountPath", "name"]},
    },
    "volumes": {"type": "array", "items": {"type": "object", "required": ["name"]}},
}
_NAMES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping of names to values",
    "array": "a list",
    "null": "no value",
}
_Kind = jsonschema_rs.ValidationErrorKind


class Problem(NamedTuple):
    """`path` is as in `config.env[0].name`; `sentence` says what is wrong there and what to do."""

    path: str
    sentence: str


# --- text ---------------------------------------------------------------------------------------


def read_config(text: str) -> dict[str, Any]:
    """The configuration in a YAML or JSON document, empty for an empty one.

    Raises ValueError with a sentence.
    """
    document = read_document(text, TEXT_LIMIT, DEPTH_LIMIT)
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise ValueError(
            f"A configuration is a mapping of fields to values, but this is {_noun(document)}."
        )
    return normalized(document)


def normalized(config: Mapping[Any, Any]) -> dict[str, Any]:
    """The configuration without fields that have no value, which the API server drops.

    Raises ValueError with a sentence for a value that is not JSON, and beyond the limits.
    """
    result: dict[str, Any] = _normalized(config, CONFIG, 0)
    try:
        size = len(json.dumps(result, allow_nan=False).encode())
    except ValueError:
        raise ValueError("A configuration has no infinite numbers.") from None
    if size > SIZE_LIMIT:
        raise ValueError(
            f"The configuration has {size} bytes and may have {SIZE_LIMIT}; move large values to a "
            "ConfigMap and name that in envFrom or volumes."
        )
    return result


def _normalized(value: Any, path: str, depth: int) -> Any:
    if depth > DEPTH_LIMIT:
        raise ValueError(f"{path}: nested more than {DEPTH_LIMIT} levels deep.")
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise ValueError(f"{path}: {name!s} is a field name, so put it in quotes.")
        return {
            name: _normalized(item, f"{path}.{name[:_SHOWN]}", depth + 1)
            for name, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_normalized(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, str) and "\x00" in value:
        raise ValueError(f"{path}: has a NUL character; remove it.")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"{path}: a value of this kind is not JSON; put it in quotes.")


# --- schema -------------------------------------------------------------------------------------


def schema_for(method: InstallMethod, served: Schema, subscription: Schema | None = None) -> Schema:
    """The schema of `spec.config` with all that is known about it.

    `served` is that of the cluster. For a ClusterExtension it leaves the content of `inline` open,
    which the controller checks against the bundle: `subscription`, the schema of a Subscription's
    configuration on the same cluster, describes `deploymentConfig`.
    """
    if method != InstallMethod.CLUSTER_EXTENSION:
        return served
    fields = dict((subscription or {}).get("properties") or _DEPLOYMENT_FIELDS)
    fields.pop("selector", None)
    properties = served.get("properties") or {}
    inline = properties.get("inline") or {}
    known = {
        WATCH_NAMESPACE: {"type": "string", "maxLength": 63},
        DEPLOYMENT_CONFIG: {"type": "object", "properties": fields},
    }
    return {
        **served,
        # The CEL rule of the definition: inline is required when configType is Inline.
        "required": sorted({*(served.get("required") or ()), "inline"}),
        "properties": {**properties, "inline": {**inline, "properties": known}},
    }


def config_problems(config: Mapping[str, Any], schema: Schema) -> list[Problem]:
    """What the API server would refuse of a normalized configuration, in the order of its fields;
    at most PROBLEMS_SHOWN. None where the schema can't be used: the dry run decides then."""
    try:
        validator = jsonschema_rs.Draft7Validator(
            json_schema(schema, closed=True)[0],
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(),  # linear in the length of a value
        )
    except (ValueError, RecursionError):
        return []
    problems: dict[str, Problem] = {}
    for error in validator.iter_errors(dict(config)):
        for problem in _problems_of(error, schema):
            problems.setdefault(problem.path, problem)
        if len(problems) >= PROBLEMS_SHOWN:
            break
    for problem in _duplicates(config, schema, CONFIG):
        problems.setdefault(problem.path, problem)
    return list(problems.values())[:PROBLEMS_SHOWN]


def _duplicates(value: Any, schema: Any, path: str) -> Iterator[Problem]:
    """Equal items of lists with keys, and of sets."""
    if not isinstance(schema, Mapping):
        return
    if isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        for name, item in value.items():
            child = properties.get(name, schema.get("additionalProperties"))
            yield from _duplicates(item, child, f"{path}.{name}")
    elif isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type")
        keys = [str(key) for key in schema.get("x-kubernetes-list-map-keys") or ()]
        seen: set[str] = set()
        for index, item in enumerate(value):
            named = item
            if kind == "map" and isinstance(item, Mapping):
                named = {key: item.get(key) for key in keys}
            identity = json.dumps(named, sort_keys=True)
            if kind in ("map", "set") and identity in seen:
                words = ", ".join(map(str, named.values())) if isinstance(named, dict) else named
                yield Problem(
                    f"{path}[{index}]", f"{words} is in this list twice; remove one of them."
                )
            seen.add(identity)
            yield from _duplicates(item, schema.get("items"), f"{path}[{index}]")


# --- sentences ----------------------------------------------------------------------------------


def _problems_of(error: jsonschema_rs.ValidationError, schema: Schema) -> Iterator[Problem]:
    path, kind = path_text(error.instance_path), error.kind
    if isinstance(kind, _Kind.AdditionalProperties):
        known = sorted(_schema_at(schema, error.instance_path).get("properties") or ())
        for name in kind.unexpected:
            yield Problem(f"{path}.{name[:_SHOWN]}", _unknown_field(name, known))
    elif isinstance(kind, _Kind.Required):
        name = str(kind.property).strip('"')
        yield Problem(f"{path}.{name}", f"This field is missing; add {name}.")
    else:
        yield Problem(path, _sentence(error))


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    kind, value = error.kind, error.instance
    shown = _shown(value)
    if isinstance(kind, _Kind.Type):
        return _wrong_type(kind.types, value)
    if isinstance(kind, _Kind.Enum):
        options = kind.options if isinstance(kind.options, list) else [kind.options]
        return f"{shown} is not possible; use {' or '.join(map(str, options[:_LISTED]))}."
    if isinstance(kind, _Kind.Pattern):
        if "KMGTPE" in kind.pattern:  # that of resource.Quantity
            return (
                f"{shown} is no quantity; use a number with a unit, such as 500m or 2 for CPUs and "
                "512Mi for memory."
            )
        return f"{shown} does not match the pattern {kind.pattern[:200]}; correct it."
    if isinstance(kind, _Kind.MinProperties):
        return "This is empty; give at least one field, or leave it out."
    if isinstance(kind, _Kind.MaxLength):
        return f"{shown} is too long; use at most {kind.limit} characters."
    if isinstance(kind, _Kind.Minimum | _Kind.ExclusiveMinimum):
        return f"{shown} is too small; use a number from {kind.limit} on."
    if isinstance(kind, _Kind.Maximum | _Kind.ExclusiveMaximum):
        return f"{shown} is too large; use a number up to {kind.limit}."
    return f"{error.message[:300].rstrip('.')}; correct it."


def _wrong_type(wanted: list[str], value: Any) -> str:
    nouns = " or ".join(_NAMES.get(name, name) for name in wanted if name != "null" or value)
    given = _noun(value)
    if "string" in wanted and isinstance(value, bool | int | float):
        return f"Expected {nouns}, but {_shown(value)} is {given}; put it in quotes."
    if wanted == ["array"]:
        return f"Expected a list, but this is {given}; write each item on a line after “- ”."
    if wanted == ["object"]:
        return f"Expected {nouns}, but this is {given}; write “name: value” lines."
    return f"Expected {nouns}, but this is {given}; correct it."


def _unknown_field(name: str, known: list[str]) -> str:
    shown = name[:_SHOWN]
    alike = difflib.get_close_matches(name, known, 1)
    if alike:
        return f"There is no field {shown} here; did you mean {alike[0]}?"
    listed = ", ".join(known[:_LISTED]) + (" and more" if len(known) > _LISTED else "")
    return f"There is no field {shown} here; remove it, or use one of {listed}."


def _noun(value: Any) -> str:
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "a mapping"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"“{text[:_SHOWN]}{'…' if len(text) > _SHOWN else ''}”"


def path_text(path: list[str | int]) -> str:
    """`config.env[0].name` for the parts `env`, 0, `name`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return CONFIG + "".join(parts)


def _schema_at(schema: Schema, path: list[str | int]) -> Schema:
    """The schema of the value at `path`; empty if it has none."""
    here: Any = schema
    for part in path:
        if isinstance(part, int):
            here = here.get("items")
        else:
            here = (here.get("properties") or {}).get(part, here.get("additionalProperties"))
        if not isinstance(here, Mapping):
            return {}
    return here if isinstance(here, Mapping) else {}


def listed_problems(problems: list[Problem]) -> dict[str, str]:
    """Path -> `PATH: sentence`, as messages of an error show them."""
    return {problem.path: f"{problem.path}: {problem.sentence}" for problem in problems}
