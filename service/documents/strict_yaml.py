"""A YAML loader that reports duplicate keys in a mapping as an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from service.documents.bounds import MOST


class StrictLoader(yaml.SafeLoader):
    """A safe YAML loader that also rejects duplicate keys, and reports their location."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node of the document, and count the nodes that aliases repeat.

        Raises `yaml.constructor.ConstructorError` if there are too many, because a few nested
        aliases can expand to a document that fills the memory.
        """
        node = super().compose_node(parent, index)
        if node is not None and node not in self._sizes:
            self._sizes[node] = 1 + sum(self._sizes.get(child, 1) for child in _children(node))
        if node is not None and self._sizes[node] > MOST:
            raise yaml.constructor.ConstructorError(
                None, None, f"the file has more than {MOST:,} values", node.start_mark
            )
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping as a dict.

        Raises `yaml.constructor.ConstructorError` if a key occurs twice.
        """
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
    """Return the single YAML document in ``text``.

    Raises `yaml.YAMLError` or ValueError if the text is not valid.
    """
    return yaml.load(text, Loader=StrictLoader)
