"""Find the Python modules that scripts import from packages in the workflow folder."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from lifecycle.words.scripts import IMPORTED
from service.root.folder_entries import is_file

#: Pattern of an import: ``import a.b, c as d`` or ``from a.b import c``, also in ``python -c``.
_IMPORT = r"\b(?:from[ \t]+([A-Za-z_]\w*)[\w.]*[ \t]+import\b|import[ \t]+([^\n;#'\"]+))"
#: Names of the files that Python runs when it imports or runs a package.
_PACKAGE = ("__init__", "__main__")
_NAME = re.compile(r"\s*([A-Za-z_]\w*)")
#: Maximum number of characters at the start of a script to search for imports.
_CHARACTERS = 10**6


def find_package_modules(
    root: Path, folders: Collection[str], scripts: Iterable[str]
) -> Iterator[str]:
    """Yield all Python files of each package that scripts import from the given folders.

    The paths are relative to the workflow folder.
    """
    names = {name for path in scripts for name in find_imported_names(root / path)}
    for folder in sorted(folders):
        for name in sorted(names):
            for place, below, files in os.walk(root / folder / name):
                below[:] = sorted(one for one in below if not one.startswith((".", "__pycache__")))
                paths = (Path(place, file) for file in sorted(files) if file.endswith(IMPORTED))
                yield from (os.path.normpath(path.relative_to(root)) for path in paths)


def find_run_module(root: Path, name: str, folders: Iterable[str]) -> Iterator[str]:
    """Yield the files that ``python -m NAME`` runs, if a folder contains the module.

    These are the module, or the ``__main__`` file of the package, and the ``__init__`` files of the
    packages above it. If no folder contains the module, it is a library, and nothing is yielded.
    """
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return
    packages = ["/".join(parts[:number]) for number in range(1, len(parts) + 1)]
    for folder in dict.fromkeys(map(os.path.normpath, folders)):
        run = (f"{folder}/{packages[-1]}{end}" for end in ("", "/__main__"))
        if not any(_files_of(root, module) for module in list(run)):
            continue
        for module in (packages[-1], *(f"{one}/{own}" for one in packages for own in _PACKAGE)):
            yield from _files_of(root, f"{folder}/{module}")


def _files_of(root: Path, module: str) -> list[str]:
    """Return the files from which Python could load a module.

    The paths are relative to the workflow folder.
    """
    paths = (os.path.normpath(f"{module}{ending}") for ending in IMPORTED)
    return [path for path in paths if _is_below(root, path) and is_file(root / path)]


def _is_below(root: Path, path: str) -> bool:
    return not path.startswith("..") and (
        not path.startswith("/") or Path(path).is_relative_to(root)
    )


def find_unimported_stdlib_names(
    root: Path, scripts: Iterable[str], commands: Iterable[str]
) -> frozenset[str]:
    """Return the names of Python's standard modules that no script or command imports.

    If a script imports a library, return an empty set, because the library may import any of them.
    """
    scripts = list(scripts)
    imported = {name for path in scripts for name in find_imported_names(root / path)}
    imported |= {name for text in commands for name in find_imported_names_in_text(text)}
    local = {PurePosixPath(path).stem for path in scripts}
    if imported - sys.stdlib_module_names - local:
        return frozenset()
    return sys.stdlib_module_names - imported


def find_imported_names(script: Path) -> Iterator[str]:
    """Yield the top-level module name of each import in a script."""
    try:
        with script.open(errors="replace") as stream:
            text = stream.read(_CHARACTERS)
    except (OSError, ValueError):
        return
    yield from find_imported_names_in_text(text)


def find_imported_names_in_text(text: str) -> Iterator[str]:
    """Yield the top-level module name of each import in Python code or in a command."""
    for found in re.finditer(_IMPORT, text):
        parts = [found[1]] if found[1] else found[2].split(",")
        yield from (match[1] for match in map(_NAME.match, parts) if match)
