"""The data models of all event types: immutable, and strict when an event is written.

A command is the payload of the event that it requests. The function `decide` accepts the command,
completes its data and adds the consequences, or refuses it.

The modules with the models are imported when one of their names is first used, because many
commands only read the log. Code therefore uses the models through this module: `from
lifecycle.payload import models as p`, then `p.NoteLogged`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lifecycle.payload.base import *
    from lifecycle.payload.stage import *
    from lifecycle.payload.workflow import *

_BASE = frozenset(
    {"AmendmentId", "AttemptId", "AttemptPayload", "Document"}
    | {"Payload", "StageId", "StagePayload", "Text"}
)
#: Prefixes of the model names in the module `workflow`. All other models are in the module `stage`.
_OF_WORKFLOWS = (
    *("Workflow", "Line", "State", "Note", "Amendment"),
    *("Session", "Cost", "Drift", "Exit", "Unknown", "Round", "Loop", "Audit"),
)


def _module_of(name: str) -> str:
    """Return the name of the module that defines a model."""
    if name in _BASE:
        return "base"
    return "workflow" if name.startswith(_OF_WORKFLOWS) else "stage"


if not TYPE_CHECKING:  # a type checker is to see the names above, and no others

    def __getattr__(name: str) -> Any:
        """Import a model when its name is first used, and store it in this module."""
        home = import_module(f"lifecycle.payload.{_module_of(name)}")
        if name not in vars(home):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(home, name)
        return found
