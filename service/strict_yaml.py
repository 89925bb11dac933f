"""YAML without its traps: a key that appears twice in one mapping is an error."""

from __future__ import annotations

from typing import Any

import yaml


class StrictLoader(yaml.SafeLoader):
    """The safe loader, with the key that stands twice named at its place."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping; raises `yaml.constructor.ConstructorError` for a key used twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen and name != "<<":
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {name!r} appears twice in one mapping", key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep)


def load(text: str) -> Any:
    """Return the one document in ``text``; raises `yaml.YAMLError`, ValueError."""
    return yaml.load(text, Loader=StrictLoader)
