"""Which tests a change can reach, by who imports whom and by names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

_HERE = Path(__file__).resolve().parents[2]
#: The rooms, and the tests themselves.
PACKAGES = tuple(
    sorted(one.parent.name for one in _HERE.glob("*/__init__.py") if not one.match(".*/*"))
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


def nearest(steps: Mapping[str, int], shared: Mapping[str, int] | None = None) -> list[str]:
    """Return the files of the tests among these modules, the nearest first.

    ``shared`` gives how many names tests have in common with what was changed; each is worth a step
    of imports. A test that no import leads to stands behind the farthest.
    """
    alike = shared or {}
    farthest = max(steps.values(), default=0) + 1
    distance = {
        name: steps.get(name, farthest) - alike.get(name, 0)
        for name in (*steps, *alike)
        if name.rpartition(".")[2].startswith("test_")
    }
    return [
        f"{name.replace('.', '/')}.py" for name in sorted(distance, key=lambda n: (distance[n], n))
    ]


def shared_names(changed: Iterable[str], known: Iterable[str]) -> dict[str, int]:
    """Return how many names each module of tests shares with the changed ones, if any.

    Many tests call the program, which finds its commands by name: no import tells of that.
    """
    words = _words(changed)
    found = {one: len(words & _words([one])) for one in known if one.startswith("tests.")}
    return {one: number for one, number in found.items() if number}


def _words(modules: Iterable[str]) -> set[str]:
    return {word for one in modules for word in one.replace("_", ".").split(".")} - {
        "test",
        "tests",
    }
