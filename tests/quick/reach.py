"""Which tests a change can reach, by who imports whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Protocol

#: The rooms, and the tests themselves.
PACKAGES = (
    "agents",
    "cli",
    "eventstore",
    "lifecycle",
    "migrations",
    "projections",
    "reconciler",
    "service",
    "tests",
)


class Graph(Protocol):
    """Who imports whom, as grimp tells it."""

    @property
    def modules(self) -> set[str]:
        """The name of every module."""

    def find_modules_that_directly_import(self, module: str) -> set[str]:
        """Return the modules that import this one."""


def modules_of(paths: Iterable[str], known: set[str]) -> set[str]:
    """Return the modules that changed files are, or lie beside where they are no Python."""
    found: set[str] = set()
    for path in map(PurePosixPath, paths):
        parts = path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts
        name = ".".join(parts)
        if path.suffix == ".py":
            found |= {name} & known
        elif path.parent.parts[:1] and path.parts[0] in PACKAGES:
            folder = ".".join(path.parent.parts)
            found |= {one for one in known if one.rpartition(".")[0] == folder}
    return found


def steps_from(changed: Iterable[str], graph: Graph) -> dict[str, int]:
    """Return the modules that a change can reach, with the imports on the shortest way to each."""
    steps = dict.fromkeys(changed, 0)
    edge = list(steps)
    while edge:
        importers = {m: steps[one] + 1 for one in edge for m in _importers(one, graph)}
        edge = [module for module in importers if module not in steps]
        steps |= {module: importers[module] for module in edge}
    return steps


def _importers(module: str, graph: Graph) -> set[str]:
    # Every import runs the files of the packages above it, but nobody means them by it.
    return graph.find_modules_that_directly_import(module)


def nearest(steps: Mapping[str, int]) -> list[str]:
    """Return the files of the tests among these modules, the nearest first."""
    tests = [name for name in steps if name.rpartition(".")[2].startswith("test_")]
    return [f"{name.replace('.', '/')}.py" for name in sorted(tests, key=lambda n: (steps[n], n))]
