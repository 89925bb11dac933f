"""YAML without its traps: a key that appears twice in one mapping is an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from service.documents.bounds import MOST


class StrictLoader(yaml.SafeLoader):
    """The safe loader, with the key that stands twice named at its place."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return a node; raises `yaml.constructor.ConstructorError` where aliases repeat too much.

        What a few aliases of aliases stand for would fill any memory once it is written out.
        """
        node = super().compose_node(parent, index)
        if node is not None and node not in self._sizes:
            self._sizes[node] = 1 + sum(self._sizes.get(child, 1) for child in _children(node))
        if node is not None and self._sizes[node] > MOST:
            raise yaml.constructor.ConstructorError(
                None, None, f"expected {MOST:,} values at most, found more", node.start_mark
            )
        return node

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


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair


def load(text: str) -> Any:
    """Return the one document in ``text``; raises `yaml.YAMLError`, ValueError."""
    return yaml.load(text, Loader=StrictLoader)
