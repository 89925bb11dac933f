"""Stages that a session left without a note."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lifecycle.event import Event
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow

#: Statuses of a stage on which a person or agent is working.
_IN_HAND = (Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING)
#: Types of the events that record a note, either on one stage or on the whole workflow.
_WORDS = ("note.logged", "checkpoint.recorded", "session.ended")


class Unfinished(NamedTuple):
    """A stage or machine whose work is unfinished, and the command to leave a note on it.

    An agent should leave such a note before it stops.
    """

    subject: str
    text: str
    command: str


def find_stages_without_note(state: Workflow, events: Iterable[Event]) -> list[Unfinished]:
    """Return the stages in work that have no note since their last change of status.

    ``events`` are the newest events of the log, oldest first. Return an empty list while an
    amendment (change of the plan) waits for a decision, because this already explains why the work
    stopped.
    """
    if state.pending_amendments:
        return []
    silent = {stage.id: stage for stage in state.stages.values() if stage.status in _IN_HAND}
    spoken: set[str] = set()
    for event in events:
        stage = event.data.get("stage")
        if event.type in _WORDS:
            spoken |= {str(stage)} if stage is not None else set(silent)
        elif event.type.startswith("stage.") and stage is not None:
            spoken.discard(str(stage))
    command = (
        'wfctl session end --reason waiting --next "…"'
        if state.session.is_open
        else 'wfctl note "…"'
    )
    return [
        Unfinished(stage.id, f"is {stage.status.value}", command)
        for stage in silent.values()
        if stage.id not in spoken
    ]
