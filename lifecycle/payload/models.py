"""The data of each event type: frozen models, strict when written, tolerant when read.

A command is the payload of the event that it asks for: `decide` accepts it, completes it and
adds what follows from it, or refuses it.

A model is loaded where its name is first used here, with its family, and its validator is built
when it is first asked: a process pays for what it writes, and one that only reads for nothing. So
code names it through this module (`from lifecycle import payload as p`, then `p.NoteLogged`).
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
#: The first words of the names that `workflow` defines; all others are of stages.
_OF_WORKFLOWS = (
    *("Workflow", "Line", "State", "Note", "Amendment"),
    *("Session", "Cost", "Drift", "Exit", "Unknown", "Round", "Loop", "Audit"),
)


def _module_of(name: str) -> str:
    """Return the module that defines a model."""
    if name in _BASE:
        return "base"
    return "workflow" if name.startswith(_OF_WORKFLOWS) else "stage"


if not TYPE_CHECKING:  # a type checker is to see the names above, and no others

    def __getattr__(name: str) -> Any:
        """Load what a family defines; from then on it is found without this."""
        home = import_module(f"lifecycle.payload.{_module_of(name)}")
        if name not in vars(home):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(home, name)
        return found
