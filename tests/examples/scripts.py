"""Loads the scripts of an example as modules, so that tests can call their functions."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def script_of(example: Path, name: str) -> ModuleType:
    """Return a script of an example as a module."""
    path = example / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{example.name}_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
