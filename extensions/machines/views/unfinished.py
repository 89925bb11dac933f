"""Find unfinished work of a machine that has no summary for the next session."""

from __future__ import annotations

from collections.abc import Iterator

from extensions.machines.rules.machine import Machine
from projections.screens.unfinished import Unfinished


def list_unfinished_work(machine: Machine) -> list[Unfinished]:
    """Return an entry if work is in progress and has no current summary.

    Otherwise, and if the machine waits for the approval of a person, the list is empty.
    """
    approval = machine.definition.find_phase_approval(machine.phase)
    waits = approval is not None and approval not in machine.approvals
    handed_off = machine.handoff is not None and machine.handoff.at >= machine.updated
    if machine.is_final or waits or handed_off:
        return []
    text = ", ".join(_iterate_work_in_hand(machine))
    command = f'wfctl machine checkpoint {machine.id} --summary "…" --next "…"'
    return [Unfinished(machine.id, text, command)] if text else []


def _iterate_work_in_hand(machine: Machine) -> Iterator[str]:
    tasks = machine.definition.tasks
    for task in machine.tasks:
        if tasks is not None and task.get("status") == tasks.running:
            yield f"task {task.get('id')} is {tasks.running}"
    if str(machine.visit.status).lower() == "in_progress":
        yield f"phase {machine.phase} is {machine.visit.status}"
