"""Remove compiled copies of Python modules in a root.

Python could run such a copy instead of the module.
"""

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
    """Prevent Python from running compiled copies of modules while the block runs.

    The copies are removed before and after the block. Python would trust a copy that contains the
    size and time of its module, even if the content differs. Yields environment variables for
    Python. If a copy cannot be removed, they make Python use an empty folder for compiled copies.
    """
    modules = list(modules)
    if remove_compiled_modules(root, modules):
        yield {}
    else:
        with TemporaryDirectory(prefix="wfctl-") as folder:
            yield {"PYTHONPYCACHEPREFIX": folder}
    remove_compiled_modules(root, modules)


def remove_compiled_modules(root: Path, modules: Iterable[str]) -> bool:
    """Remove the compiled copies of modules, and return whether all were removed."""
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
