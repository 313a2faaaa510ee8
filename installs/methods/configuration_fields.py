"""The form fields of a configuration: plain lines and values instead of YAML where that is enough.

`from_values` makes `spec.config` of form values, `to_values` the reverse for an existing one;
together they lose nothing, as `config_more` holds in YAML what the other fields can't. Pure.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from catalogs.install_methods import InstallMethod
from installs.methods.configuration import (
    CONFIG,
    DEPLOYMENT_CONFIG,
    INLINE,
    WATCH_NAMESPACE,
    read_config,
)

ENV, NODE_SELECTOR, TOLERATIONS = "config_env", "config_node_selector", "config_tolerations"
WATCH, MORE = "config_watch_namespace", "config_more"
# Form field -> (requests or limits, resource).
RESOURCES = {
    f"config_{kind}_{name}": (kind, name)
    for kind in ("requests", "limits")
    for name in ("cpu", "memory")
}
FORM_FIELDS = (ENV, NODE_SELECTOR, TOLERATIONS, *RESOURCES, WATCH, MORE)
# The field of the configuration that a form field is part of.
_OF = {
    ENV: "env",
    NODE_SELECTOR: "nodeSelector",
    TOLERATIONS: "tolerations",
    **dict.fromkeys(RESOURCES, "resources"),
}
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NAME = re.compile(r"[^\s=]+")  # of an environment variable; Kubernetes allows most characters
_TOLERATION = re.compile(r"(?P<key>[^\s=:]*)(?:=(?P<value>[^\s=:]*))?(?::(?P<effect>[^\s=:]*))?")


@dataclass
class ReadValues:
    """The configuration that form values make, and form field -> sentence for those that can't be
    read; the configuration is complete without any."""

    config: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def offered_fields(method: InstallMethod, known_fields: frozenset[str] | None) -> frozenset[str]:
    """The form fields for the fields of `spec.config` that the cluster serves; none if it serves no
    configuration."""
    known = known_fields or frozenset()
    if f"spec.{CONFIG}" not in known:
        return frozenset()
    if method == InstallMethod.CLUSTER_EXTENSION:
        return frozenset(FORM_FIELDS)
    served = (name for name, of in _OF.items() if f"spec.{CONFIG}.{of}" in known)
    return frozenset((*served, MORE))


def from_values(method: InstallMethod, values: Mapping[str, str]) -> ReadValues:
    """The configuration in the form values of FORM_FIELDS, of which any may be absent."""
    result = ReadValues()
    fields: dict[str, Any] = {}
    readers: dict[str, Callable[[str], Any]] = {
        ENV: _env,
        NODE_SELECTOR: _pairs,
        TOLERATIONS: _tolerations,
    }
    for name, reader in readers.items():
        try:
            if read := reader(values.get(name, "")):
                fields[_OF[name]] = read
        except ValueError as error:
            result.problems[name] = str(error)
    for name, (kind, resource) in RESOURCES.items():
        if quantity := values.get(name, "").strip():
            fields.setdefault("resources", {}).setdefault(kind, {})[resource] = quantity
    try:
        more = read_config(values.get(MORE, ""))
    except ValueError as error:
        result.problems[MORE] = str(error)
        more = {}
    watched = values.get(WATCH, "").strip()
    if method != InstallMethod.CLUSTER_EXTENSION:
        result.config = _merged(fields, more, result)
        return result
    deployment = more.pop(DEPLOYMENT_CONFIG, {})
    if isinstance(deployment, Mapping):
        deployment = _merged(fields, dict(deployment), result)
    elif fields:
        result.problems[MORE] = f"{DEPLOYMENT_CONFIG} is a mapping of names to values."
    inline = {WATCH_NAMESPACE: watched} if watched else {}
    if watched and WATCH_NAMESPACE in more:
        result.problems[MORE] = f"{WATCH_NAMESPACE} has a field of its own; remove it here."
    inline = more | inline | ({DEPLOYMENT_CONFIG: deployment} if deployment else {})
    if inline:
        result.config = {"configType": INLINE, "inline": inline}
    return result


def _merged(fields: dict[str, Any], more: dict[str, Any], result: ReadValues) -> dict[str, Any]:
    """The values of the fields and those in YAML; resources may be in both."""
    resources, others = fields.get("resources"), more.get("resources")
    if resources and isinstance(others, Mapping):
        for kind, quantities in others.items():
            mine = resources.get(kind)
            twice = isinstance(quantities, Mapping) and mine and mine.keys() & quantities.keys()
            if twice:
                result.problems[MORE] = (
                    f"resources.{kind}.{min(twice)} has a field of its own; remove it here."
                )
            elif mine and isinstance(quantities, Mapping):
                resources[kind] = {**quantities, **mine}
            elif not mine:
                resources[kind] = quantities
        more = {name: value for name, value in more.items() if name != "resources"}
    for name in fields.keys() & more.keys():
        result.problems[MORE] = f"{name} is also in a field of its own; keep it in one place."
    return {**fields, **more}


def to_values(method: InstallMethod, config: Mapping[str, Any]) -> dict[str, str]:
    """The form values that `from_values` makes this configuration of."""
    more: dict[str, Any] = dict(config)
    values: dict[str, str] = {}
    if method != InstallMethod.CLUSTER_EXTENSION:
        _take_out(more, values)
    else:
        inline = more.get("inline")
        more = dict(inline) if isinstance(inline, Mapping) else {}
        if isinstance(more.get(WATCH_NAMESPACE), str):
            values[WATCH] = more.pop(WATCH_NAMESPACE)
        if isinstance(more.get(DEPLOYMENT_CONFIG), Mapping):
            deployment = dict(more.pop(DEPLOYMENT_CONFIG))
            _take_out(deployment, values)
            more |= {DEPLOYMENT_CONFIG: deployment} if deployment else {}
    if more:
        values[MORE] = yaml.safe_dump(more, sort_keys=False)
    return values


def _take_out(fields: dict[str, Any], values: dict[str, str]) -> None:
    """Moves what lines can say from the fields to the form values."""
    texts: dict[str, Callable[[Any], str]] = {
        ENV: _env_text,
        NODE_SELECTOR: _pairs_text,
        TOLERATIONS: _tolerations_text,
    }
    readers = {ENV: _env, NODE_SELECTOR: _pairs, TOLERATIONS: _tolerations}
    for name, text_of in texts.items():
        try:
            text = text_of(fields[_OF[name]])
            if text and readers[name](text) == fields[_OF[name]]:
                values[name] = text
                del fields[_OF[name]]
        except (KeyError, TypeError, ValueError, AttributeError):
            continue  # absent, or more than lines can say: stays in the YAML
    resources = fields.get("resources")
    if not isinstance(resources, Mapping):
        return
    left = {kind: dict(of) if isinstance(of, Mapping) else of for kind, of in resources.items()}
    for name, (kind, resource) in RESOURCES.items():
        quantities = left.get(kind)
        quantity = quantities.get(resource) if isinstance(quantities, dict) else None
        if isinstance(quantity, str) and quantity and quantity == quantity.strip():
            values[name] = left[kind].pop(resource)
            if not left[kind]:
                del left[kind]
    if left or not resources:
        fields["resources"] = left
    else:
        del fields["resources"]


def form_field(path: str) -> str:
    """The form field of a path such as `config.env[0].name`; CONFIG for that itself, `path` for
    one that is not of the configuration."""
    if path == CONFIG or not path.startswith(f"{CONFIG}."):
        return path
    inner = path.removeprefix(f"{CONFIG}.").removeprefix("inline.")
    if inner == WATCH_NAMESPACE:
        return WATCH
    inner = inner.removeprefix(f"{DEPLOYMENT_CONFIG}.")
    for name, (kind, resource) in RESOURCES.items():
        if inner == f"resources.{kind}.{resource}":
            return name
    first = re.split(r"[.\[]", inner, maxsplit=1)[0]
    lines = (ENV, NODE_SELECTOR, TOLERATIONS)
    return next((name for name in lines if _OF[name] == first), MORE)


def form_problems(problems: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Form field -> sentence for the problems of a configuration; those of values in YAML are at
    that field, together."""
    placed: dict[str, list[str]] = {}
    for path, sentence in problems.items():
        name = form_field(path)
        if name in FORM_FIELDS and not values.get(name, "").strip():
            name = MORE
        placed.setdefault(MORE if name == CONFIG else name, []).append(sentence)
    return {name: " ".join(sentences) for name, sentences in placed.items()}


# --- lines --------------------------------------------------------------------------------------


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _env(text: str) -> list[dict[str, str]]:
    variables: dict[str, str] = {}
    for line in _lines(text):
        name, separator, value = line.partition("=")
        if not separator or not _NAME.fullmatch(name.strip()):
            raise ValueError(f"“{line[:60]}” is not NAME=value; write one variable on a line.")
        if name.strip() in variables:
            raise ValueError(f"{name.strip()[:60]} is there twice; remove one of them.")
        variables[name.strip()] = value.strip()
    return [{"name": name, "value": value} for name, value in variables.items()]


def _env_text(variables: Any) -> str:
    return "\n".join(f"{variable['name']}={variable['value']}" for variable in variables)


def _pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for line in _lines(text):
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise ValueError(f"“{line[:60]}” is not LABEL=value; write one label on a line.")
        if name.strip() in pairs:
            raise ValueError(f"{name.strip()[:60]} is there twice; remove one of them.")
        pairs[name.strip()] = value.strip()
    return pairs


def _pairs_text(pairs: Any) -> str:
    return "\n".join(f"{name}={value}" for name, value in pairs.items())


def _tolerations(text: str) -> list[dict[str, str]]:
    """Lines as kubectl writes taints: KEY=VALUE:EFFECT, of which value and effect may be absent.
    A line without a value tolerates every value of the key."""
    tolerations = []
    for line in _lines(text):
        match = _TOLERATION.fullmatch(line)
        effect = (match["effect"] or "") if match else ""
        if match is None or not match["key"] or (effect and effect not in EFFECTS):
            raise ValueError(
                f"“{line[:60]}” is not KEY=VALUE:EFFECT or KEY:EFFECT, where EFFECT is "
                f"{', '.join(EFFECTS)}."
            )
        toleration = {"key": match["key"]}
        if match["value"] is None:
            toleration["operator"] = "Exists"
        else:
            toleration |= {"operator": "Equal", "value": match["value"]}
        tolerations.append(toleration | ({"effect": effect} if effect else {}))
    return tolerations


def _tolerations_text(tolerations: Any) -> str:
    lines = []
    for toleration in tolerations:
        value = f"={toleration['value']}" if toleration.get("operator") == "Equal" else ""
        effect = f":{toleration['effect']}" if "effect" in toleration else ""
        lines.append(f"{toleration['key']}{value}{effect}")
    return "\n".join(lines)
