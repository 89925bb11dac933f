"""Limits on the size and structure of the code that linters cannot test."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parents[1]
PACKAGES = (
    "wording",
    "lifecycle",
    "eventstore",
    "extensions",
    "projections",
    "migrations",
    "service",
    "reconciler",
    "cli",
    "wfctl_eventstore",
)
FUNCTION_LINES, USUAL_LINES = 60, 10
TREES = (
    "EventStoreError",
    "LifecycleError",
    "ReconcilerError",
    "ServiceError",
    "ToolCallError",
)


def sources() -> Iterator[Path]:
    """Yield the source files of the program, without tests and benchmarks."""
    for package in PACKAGES:
        yield from sorted((HERE / package).rglob("*.py"))


@cache
def taken_apart(path: Path) -> ast.Module:
    """Parse a file into a syntax tree, once for all tests."""
    return ast.parse(path.read_text("utf-8"))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield each function of a file with its number of lines."""
    for node in ast.walk(taken_apart(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path.relative_to(HERE)}: {node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_functions_are_small() -> None:
    """The median length of a function is below ten lines, and the maximum is sixty lines."""
    found = dict(one for path in sources() for one in functions(path))
    assert {name: count for name, count in found.items() if count > FUNCTION_LINES} == {}
    assert median(found.values()) < USUAL_LINES


def modules() -> dict[str, Path]:
    """Return the path of each module of the program by the module's dotted name."""
    names = {".".join(path.relative_to(HERE).with_suffix("").parts): path for path in sources()}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


def imported(path: Path, known: Container[str]) -> Iterator[str]:
    """Yield the program's modules that a file imports anywhere, also inside functions."""
    for node in ast.walk(taken_apart(path)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                name = f"{node.module}.{one.name}"
                found = name if name in known else node.module
                yield from (found,) if found in known else ()


def test_modules_have_no_circular_imports() -> None:
    """Modules can be sorted by their imports; otherwise CycleError names a circle of them."""
    known = modules()
    # This module imports types of all layers, but only for type checkers.
    known.pop("wfctl_eventstore.extension")
    needs = {name: set(imported(path, known)) - {name} for name, path in known.items()}
    assert len(list(TopologicalSorter(needs).static_order())) == len(known)


def errors_by_package() -> dict[str, set[str]]:
    """Return the names of the public error classes in each top-level package."""
    bases: dict[str, tuple[str, set[str]]] = {}
    for path in sources():
        for node in taken_apart(path).body:
            if isinstance(node, ast.ClassDef):
                package = path.relative_to(HERE).parts[0]
                bases[node.name] = package, {ast.unparse(base) for base in node.bases}
    found = set(TREES) & bases.keys()
    while more := {name for name, (_, own) in bases.items() if own & found} - found:
        found |= more
    return {
        package: {name for name in found if bases[name][0] == package and not name.startswith("_")}
        for package in PACKAGES
    }


def drawn_in(package: str) -> str:
    """Return the trees of error classes in the docstrings of a package's errors.py files."""
    pages = sorted((HERE / package).rglob("errors.py"))
    return "\n".join(ast.get_docstring(ast.parse(page.read_text("utf-8"))) or "" for page in pages)


def test_every_error_is_in_the_documented_tree() -> None:
    """Each error class is drawn in the docstring of an errors.py file of its package."""
    drawn = {package: drawn_in(package) for package in PACKAGES}
    errors = errors_by_package().items()
    assert [name for package, own in errors for name in own if name not in drawn[package]] == []


def test_git_is_called_by_one_module_only() -> None:
    """Other modules must not call git, which can run programs of a foreign repository."""
    door = HERE / "service/root/git.py"
    calls = re.compile(r"""\[\s*["']git["']|which\(["']git["']""")
    found = [path for path in sources() if path != door and calls.search(path.read_text("utf-8"))]
    assert found == []
    assert calls.search(door.read_text("utf-8"))


def names(kind: type[ast.ClassDef | ast.FunctionDef]) -> dict[str, list[str]]:
    """Return public names that several files define at their top level, with these files."""
    found: dict[str, list[str]] = {}
    for path in sources():
        own = (node.name for node in taken_apart(path).body if isinstance(node, kind))
        for name in dict.fromkeys(own):
            found.setdefault(name, []).append(str(path.relative_to(HERE)))
    public = {name: files for name, files in found.items() if not name.startswith("_")}
    return {name: files for name, files in public.items() if len(files) > 1}


def test_class_names_are_unique() -> None:
    """No two files of the program define a public class with the same name."""
    assert names(ast.ClassDef) == {}
