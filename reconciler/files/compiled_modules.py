"""Compiled copies of the Python modules in a root, which Python reads in place of the modules."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory

_FOLDER = "__pycache__"


@contextmanager
def hide_compiled_modules(root: Path, modules: Iterable[str]) -> Iterator[dict[str, str]]:
    """Remove the compiled copies of modules, and again at the end, and yield variables for Python.

    Python trusts a compiled copy if it states size and time of its module. If a copy cannot be
    removed, the variables let Python use an empty folder for all compiled copies.
    """
    modules = list(modules)
    if remove_compiled_modules(root, modules):
        yield {}
    else:
        with TemporaryDirectory(prefix="wfctl-") as folder:
            yield {"PYTHONPYCACHEPREFIX": folder}
    remove_compiled_modules(root, modules)


def remove_compiled_modules(root: Path, modules: Iterable[str]) -> bool:
    """Remove the compiled copies of modules below the root, and return whether all are removed."""
    removed = True
    for path in (root / one for one in modules if one.endswith(".py")):
        folder = path.parent / _FOLDER
        for copy in folder.glob(f"{escape(path.stem)}.*.pyc"):
            try:
                copy.unlink()
            except OSError:
                removed = removed and not os.path.lexists(copy)
        with suppress(OSError):  # the folder contains other files, or is a link
            folder.rmdir()
    return removed
