"""Keep pydantic from searching for plugins, which would slow down the start of a command."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

#: Name of the pydantic module that searches for plugins.
LOADER = "pydantic.plugin._loader"


def disable_pydantic_plugin_search() -> None:
    """Prevent pydantic from searching for plugins, unless it has already done so.

    The search would slow down the start of each command.
    """
    if LOADER not in sys.modules:
        loader = ModuleType(LOADER, "Stands for the module that searches.")
        vars(loader).update(get_plugins=lambda: (), __getattr__=_get_real_plugin_attribute)
        sys.modules[LOADER] = loader


def _get_real_plugin_attribute(name: str) -> Any:
    """Import the real plugin module of pydantic, and return the named attribute.

    A placeholder module calls this function if a pydantic version needs an attribute it does not
    have.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    del sys.modules[LOADER]
    return getattr(import_module(LOADER), name)
