"""The rules of sessions. Source: the staged-workflow protocol ("A session")."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lifecycle.errors import BudgetLeft, NoCommand, NotFinished, NothingHinders, NothingLeft
from lifecycle.payload import models as p
from lifecycle.state.budget import affords, budget_of
from lifecycle.state.hindrance import hindrances
from lifecycle.state.status import FINISHED
from lifecycle.state.workflow import Session, Workflow

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
    notes = [f"{ended}, {_cost(state, before)}"]
    if before.is_open:
        notes.append(f"WARNING: session {before.count} has no end in the log: it died")
    return [p.NoteLogged(text=text) for text in notes]


def _cost(state: Workflow, session: Session) -> str:
    return f"cost={session.cost:g}/{budget_of(state):g}"


def end(state: Workflow, command: p.SessionEnded) -> Decision:
    """The end of the open session, and before it the reason that the protocol spells out."""
    if not state.session.is_open:
        raise NoCommand("no session is open; `wfctl session start` begins one.", type=command.type)
    if command.reason == "completed" and not state.is_finished:
        unfinished = [s.id for s in state.stages.values() if s.status not in FINISHED]
        raise NotFinished(unfinished)
    if command.reason == "budget_exhausted" and _is_affordable(state):
        raise BudgetLeft(state.session.cost, budget_of(state))
    if command.reason != "completed" and state.is_finished:
        raise NothingLeft(command.reason)
    if command.reason == "blocked" and not command.next and not hindrances(state):
        raise NothingHinders
    return [*_reasons(state, command), command]


def _is_affordable(state: Workflow) -> bool:
    """Whether this session can still pay for each stage that is not finished."""
    left = [stage for stage in state.stages.values() if stage.status not in FINISHED]
    return all(affords(state, stage) for stage in left)


def _reasons(state: Workflow, command: p.SessionEnded) -> Decision:
    if command.reason == "budget_exhausted":
        cost, budget = state.session.cost, budget_of(state)
        text = f"Session ending: budget exhausted (cost={cost:g}, budget={budget:g})"
        return [p.NoteLogged(text=text)]
    if command.reason == "blocked":
        return [p.NoteLogged(text=f"Session ending: blocked. {one}") for one in hindrances(state)]
    return []
