"""Find the tests that a change can affect, by imports and by names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

_HERE = Path(__file__).resolve().parents[2]
#: The names of all packages in this repository, including the tests.
PACKAGES = tuple(
    sorted(one.parent.name for one in _HERE.glob("*/__init__.py") if not one.match(".*/*"))
)


class Graph(Protocol):
    """The import graph of the repository. The library grimp provides it."""

    @property
    def modules(self) -> set[str]:
        """The names of all modules in the graph."""

    def find_modules_that_directly_import(self, module: str) -> set[str]:
        """Return the modules that import the given module."""


def modules_of(paths: Iterable[str], known: set[str]) -> set[str]:
    """Return the modules of changed files.

    A file that is no Python file stands for all modules in its folder.
    """
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
    """Return each module that a change can affect, with its distance in imports."""
    steps = dict.fromkeys(changed, 0)
    edge = list(steps)
    while edge:
        importers = {m: steps[one] + 1 for one in edge for m in _importers(one, graph)}
        edge = [module for module in importers if module not in steps]
        steps |= {module: importers[module] for module in edge}
    return steps


def _importers(module: str, graph: Graph) -> set[str]:
    # An import also runs the packages above the module. They are ignored, because the importing
    # code does not ask for them.
    return graph.find_modules_that_directly_import(module)


def nearest(steps: Mapping[str, int], shared: Mapping[str, int] | None = None) -> list[str]:
    """Return the test files among the modules, sorted by their distance in imports.

    ``shared`` has the number of names that a test shares with the changed modules. Each shared name
    reduces the distance by one. A test that no import connects with the change comes last.
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
    """Return the number of names that each test module shares with the changed modules.

    Many tests call commands by name, which imports do not show.
    """
    words = _words(changed)
    found = {one: len(words & _words([one])) for one in known if one.startswith("tests.")}
    return {one: number for one, number in found.items() if number}


def _words(modules: Iterable[str]) -> set[str]:
    return {word for one in modules for word in one.replace("_", ".").split(".")} - {
        "test",
        "tests",
    }
