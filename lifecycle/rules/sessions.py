"""The rules of sessions. Source: the staged-workflow protocol ("A session")."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lifecycle.errors import BudgetLeft, NoCommand, NotFinished, NothingHinders, NothingLeft
from lifecycle.payload import models as p
from lifecycle.state.budget import affords, budget_of
from lifecycle.state.hindrance import hindrances
from lifecycle.state.status import FINISHED
from lifecycle.state.workflow import Workflow

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

Decision: TypeAlias = "list[Payload]"


def start(state: Workflow, command: p.SessionStarted) -> Decision:
    """A session of the next number; how the one before it ended is said first.

    The log alone numbers sessions. One that was open still has died: nothing ends it any more.
    """
    number = state.session.count + 1
    return [*_previous(state), command.model_copy(update={"number": number})]


def _previous(state: Workflow) -> Decision:
    before = state.session
    if before.count == 0:
        return []
    ended = f"Previous session ended: exit_reason={before.exit_reason or 'null'}"
    notes = [f"{ended}, cost={before.cost:g}/{budget_of(state):g}"]
    if before.is_open:
        notes.append(f"WARNING: session {before.count} has no end in the log: it died")
    return [p.NoteLogged(text=text) for text in notes]


def end(state: Workflow, command: p.SessionEnded) -> Decision:
    """The end of the open session, and before it the reason that the protocol spells out."""
    if not state.session.is_open:
        raise NoCommand("no session is open; `wfctl session start` begins one.", type=command.type)
    left = [stage for stage in state.stages.values() if stage.status not in FINISHED]
    if command.reason == "completed" and left:
        raise NotFinished([stage.id for stage in left])
    if command.reason == "budget_exhausted" and all(affords(state, stage) for stage in left):
        raise BudgetLeft(state.session.cost, budget_of(state))
    if command.reason != "completed" and not left:
        raise NothingLeft(command.reason)
    if command.reason == "blocked" and not command.next and not hindrances(state):
        raise NothingHinders
    return [*_reasons(state, command), command]


def _reasons(state: Workflow, command: p.SessionEnded) -> Decision:
    if command.reason == "budget_exhausted":
        cost, budget = state.session.cost, budget_of(state)
        text = f"Session ending: budget exhausted (cost={cost:g}, budget={budget:g})"
        return [p.NoteLogged(text=text)]
    if command.reason == "blocked":
        return [p.NoteLogged(text=f"Session ending: blocked. {one}") for one in hindrances(state)]
    return []
