"""Shortcuts past typer and pydantic, by names that are private to them.

**Values without a validator.** typer hands each value to pydantic, and builds a validator for each
option even where none is given: a third of a command that reads. A text that is to be a text, a
whole number, or the name of one of several choices needs none. What is not plainly right goes to
typer as ever, so that each error is the one that typer gives.

**No search for plugins.** Before it builds its first validator, pydantic opens a file of every
distribution that is installed to see whether one is a plugin of it, and loads much of the standard
library for that: a tenth of a proposal, and a third more files, which a home on a network feels.

Another version of either project makes commands slower and changes no answer;
`tests/cli/test_shortcuts.py` fails then.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import Any, get_args, get_origin

try:
    from typer._coercion import RuntimeParam, build_runtime_param
except ImportError:
    RuntimeParam = None  # type: ignore[misc, assignment]

#: The module of pydantic that searches.
LOADER = "pydantic.plugin._loader"
_WHOLE = re.compile(r"(0|[1-9][0-9]{0,17})\Z")
#: Stands for a value on which typer must decide.
_UNDECIDED = object()


class _AsTyped(RuntimeParam or object):  # type: ignore[misc]
    """What was typed, where it is plainly of the type; else what typer makes of it."""

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        found = self._plain(value)
        if found is not _UNDECIDED:
            return found
        return build_runtime_param(param.type_descriptor).coerce(value, param, ctx)

    def _plain(self, value: Any) -> Any:
        kind: Any = get_origin(self.annotation)
        if kind is list and isinstance(value, (list, tuple)):
            (kind,) = get_args(self.annotation)
            found = [_one(kind, part) for part in value]
            return _UNDECIDED if _UNDECIDED in found else found
        found = _one(self.annotation, value)
        return found if self._is_within_bounds(found) else _UNDECIDED

    def _is_within_bounds(self, value: Any) -> bool:
        least, most = self.parameter_info.min, self.parameter_info.max
        return not isinstance(value, int) or (
            (least is None or value >= least) and (most is None or value <= most)
        )


def _one(kind: Any, value: Any) -> Any:
    if kind is str and type(value) is str:
        return value
    if kind is int:
        if type(value) is int:
            return value
        is_plain = type(value) is str and _WHOLE.match(value)
        return int(value) if is_plain else _UNDECIDED
    if isinstance(kind, type) and issubclass(kind, Enum):
        if isinstance(value, kind):
            return value
        return next((member for member in kind if member.value == value), _UNDECIDED)
    return _UNDECIDED


def taken_as_typed(params: list[Any]) -> list[Any]:
    """Return the parameters of a command of typer, whose plain values need no validator now."""
    for param in params if RuntimeParam is not None else ():
        with suppress(AttributeError, TypeError):  # of a typer that calls them otherwise
            kind = param.type_descriptor
            if kind.file_annotation is None and kind.parameter_info.parser is None:
                plain = _AsTyped(kind.parameter_info, kind.annotation)
                param._runtime_param = plain  # noqa: SLF001
    return params


def search_no_plugins() -> None:
    """Let pydantic find no plugin in this process; where it has looked already, nothing changes."""
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
