"""Modules that are there and that the command line does without.

typer asks shutil for the width of the terminal and uuid for a type of parameters. Both would load
what they have for others: two compressions and a way to name a moment, twelve files in all, each
of which takes its time where the program lies on a network.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Whoever finds one of them missing as it is first imported goes on without it.
SPARED = ("_uuid", "bz2", "lzma")


@contextmanager
def spared() -> Iterator[None]:
    """Let what is imported in the block find none of the modules that are not loaded yet."""
    hidden = [name for name in SPARED if name not in sys.modules]
    # This is how the import system itself is told that a module is not to be found.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
