"""YAML as Kubernetes reads it, and documents that people write for it, of unknown origin. Pure."""

from typing import Any

import yaml

_SHOWN = 60  # characters of a field's name in a sentence


class KubernetesLoader(yaml.CSafeLoader):
    """YAML with the types of JSON, as Kubernetes and opm read it: a date is text."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


class _StrictLoader(KubernetesLoader):
    """Refuses a field that is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in names:
                    raise yaml.YAMLError(f"the field {key.value[:_SHOWN]} is there twice")
                names.add(key.value)
        return super().construct_mapping(node, deep)


def read_document(text: str, characters: int, levels: int) -> Any:
    """The value of the one document in a text of at most that many characters and nested levels;
    None for an empty one.

    Raises ValueError with a sentence; also for aliases, which may expand a few bytes to gigabytes.
    """
    if len(text) > characters:
        raise ValueError(f"This has {len(text)} characters and may have {characters}.")
    try:
        _require_plain(text, levels)
        return yaml.load(text, _StrictLoader)  # noqa: S506 - safe: a CSafeLoader
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"This is not valid YAML: {_problem(error)}.") from None


def _require_plain(text: str, levels: int) -> None:
    depth = 0
    for event in yaml.parse(text, _StrictLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > levels:
            raise yaml.YAMLError(f"nested more than {levels} levels deep")
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not read; write the value out")


def _problem(error: Exception) -> str:
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    mark = getattr(error, "problem_mark", None)
    return f"{problem}{f' in line {mark.line + 1}' if mark else ''}"
