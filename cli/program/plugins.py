"""pydantic without a search for its plugins, of which wfctl uses none.

Before it builds its first validator, pydantic opens a file of every distribution that is installed
to see whether one is a plugin of it, and loads much of the standard library for that. On a home
that lies on a network that is most of what a write waits for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

#: The module that searches.
LOADER = "pydantic.plugin._loader"


def search_no_plugins() -> None:
    """Let pydantic find none in this process; where it has looked already, nothing changes."""
    if LOADER not in sys.modules:
        loader = ModuleType(LOADER, "Stands for the module that searches.")
        vars(loader).update(get_plugins=lambda: (), __getattr__=_of_the_real_one)
        sys.modules[LOADER] = loader


def _of_the_real_one(name: str) -> Any:
    """Return what a pydantic of another version wants of the module, which is then loaded."""
    if name.startswith("__"):
        raise AttributeError(name)
    del sys.modules[LOADER]
    return getattr(import_module(LOADER), name)
