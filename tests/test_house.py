"""Limits of the code and the documented trees of errors, which `make check` cannot test."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parents[1]
ROOMS = (
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
    """Yield the files of the program."""
    for room in ROOMS:
        yield from sorted((HERE / room).rglob("*.py"))


@cache
def taken_apart(path: Path) -> ast.Module:
    """Return the syntax tree of a file, cached for several tests."""
    return ast.parse(path.read_text("utf-8"))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the functions of a file with their number of lines."""
    for node in ast.walk(taken_apart(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path.relative_to(HERE)}: {node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_functions_are_small() -> None:
    """The median is below ten lines, and the maximum is sixty lines."""
    found = dict(one for path in sources() for one in functions(path))
    assert {name: count for name, count in found.items() if count > FUNCTION_LINES} == {}
    assert median(found.values()) < USUAL_LINES


def modules() -> dict[str, Path]:
    """Return each module of the program by its dotted name."""
    names = {".".join(path.relative_to(HERE).with_suffix("").parts): path for path in sources()}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


def imported(path: Path, known: Container[str]) -> Iterator[str]:
    """Yield the modules of the program that a file imports, including late and type imports."""
    for node in ast.walk(taken_apart(path)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                name = f"{node.module}.{one.name}"
                found = name if name in known else node.module
                yield from (found,) if found in known else ()


def test_modules_have_no_circular_imports() -> None:
    """`CycleError` names the modules of a circle."""
    known = modules()
    # This module names types of all layers for type checkers only.
    known.pop("wfctl_eventstore.extension")
    needs = {name: set(imported(path, known)) - {name} for name, path in known.items()}
    assert len(list(TopologicalSorter(needs).static_order())) == len(known)


def errors_by_room() -> dict[str, set[str]]:
    """Return the names of the public error classes of each room."""
    bases: dict[str, tuple[str, set[str]]] = {}
    for path in sources():
        for node in taken_apart(path).body:
            if isinstance(node, ast.ClassDef):
                room = path.relative_to(HERE).parts[0]
                bases[node.name] = room, {ast.unparse(base) for base in node.bases}
    found = set(TREES)
    while more := {name for name, (_, own) in bases.items() if own & found} - found:
        found |= more
    return {
        room: {name for name in found if bases[name][0] == room and not name.startswith("_")}
        for room in ROOMS
    }


def drawn_in(room: str) -> str:
    """Return the trees of errors in the docstrings of a room's files."""
    pages = sorted((HERE / room).rglob("errors.py"))
    return "\n".join(ast.get_docstring(ast.parse(page.read_text("utf-8"))) or "" for page in pages)


def test_every_error_is_in_the_documented_tree() -> None:
    """A reader finds all error classes of a room in the docstrings of its errors.py files."""
    drawn = {room: drawn_in(room) for room in ROOMS}
    errors = errors_by_room().items()
    assert [name for room, own in errors for name in own if name not in drawn[room]] == []


def test_git_is_called_by_one_module_only() -> None:
    """A direct call could run programs that a foreign repository configures."""
    door = HERE / "service/root/git.py"
    calls = re.compile(r"""\[\s*["']git["']|which\(["']git["']""")
    found = [path for path in sources() if path != door and calls.search(path.read_text("utf-8"))]
    assert found == []
    assert calls.search(door.read_text("utf-8"))


def names(kind: type[ast.ClassDef | ast.FunctionDef]) -> dict[str, list[str]]:
    """Return the public names that several files define at their top, with these files."""
    found: dict[str, list[str]] = {}
    for path in sources():
        own = (node.name for node in taken_apart(path).body if isinstance(node, kind))
        for name in dict.fromkeys(own):
            found.setdefault(name, []).append(str(path.relative_to(HERE)))
    public = {name: files for name, files in found.items() if not name.startswith("_")}
    return {name: files for name, files in public.items() if len(files) > 1}


def test_class_names_are_unique() -> None:
    """A class name has one meaning in the whole program."""
    assert names(ast.ClassDef) == {}
