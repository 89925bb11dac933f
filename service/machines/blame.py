"""Who changed a field of a machine: the same history of fields as a workflow's."""

from __future__ import annotations

from typing import Any

import orjson

from lifecycle.machines.machine import Machine
from projections.files import fields
from projections.files.fields import ABSENT
from projections.machines.documents import documents
from service.errors import NotFound
from service.machines.log import At, MachineLog
from service.questions.blame import Blame, FieldHistory


def blame(log: MachineLog, name: str, at: At = None) -> list[Blame]:
    """Return, for a field or a group of fields, each field's newest change.

    A task is named by its id: ``tasks.T-1.status``. Raises `NotFound` for what never was, and
    `StateNotFound`.
    """
    known = tree(log.current(at))
    path = fields.path_of(known, name)
    history = FieldHistory(path)
    for event, state in log.steps(upto=at):
        value = fields.at(tree(state), path)
        history.take(event, b"" if value is ABSENT else orjson.dumps(value))
    found = list(history.changes.values())
    if not found:
        there = fields.at(known, path[:-1])
        names = ", ".join(there if isinstance(there, dict) else known)
        raise NotFound(f"no field {name!r} at any time; here are: {names}", field=name)
    there_now = [change for change in found if change.new is not ABSENT]
    return [Blame(change, None) for change in there_now or found]


def tree(state: Machine) -> dict[str, Any]:
    """Return a machine's state as one document, with its tasks by their ids."""
    whole: dict[str, Any] = {}
    for document in documents(state).values():
        whole |= document
    tasks = state.definition.tasks
    if tasks is not None and state.tasks:
        whole[tasks.path] = {str(task.get("id")): task for task in state.tasks}
    return whole
