"""Find open decisions of persons about phase machines, for `wfctl inbox`."""

from __future__ import annotations

from collections.abc import Iterator

from cli.frame.workspace import OpenedWorkflow
from extensions.machines.service.guard_facts import collect_guard_facts
from extensions.machines.service.log import MachineLog
from extensions.machines.views.next_actions import machine_actions
from projections.screens.inbox import InboxItem
from service.reading.machine_streams import list_machines

#: Verb of a suggested action that only a person can perform → kind of the item in the inbox.
_OF_PERSON = {"approve": "approval", "drift": "drift"}


def find_decisions(workflow: OpenedWorkflow) -> Iterator[InboxItem]:
    """Yield an inbox item for each open decision about a machine in the folder."""

    root = workflow.root
    for id_ in list_machines(root, workflow.store):
        machine = MachineLog(workflow.store, id_, root.path).current()
        for action in machine_actions(machine, collect_guard_facts(root.path, machine)):
            if not action.person:
                continue
            verb, target = str(action.verb), str(action.target)
            line = ["machine", verb, id_, target]
            lines = {"approve": line, "statement": [*line, "--statement"]}
            if verb == "drift":
                lines = {"approve": [*line, "--adopt"], "reject": [*line, "--revert"]}
            edits = [one.version for one in machine.drifts if one.file == target]
            mark = f"{machine.visit.entered_at}{edits or ''}"
            place, kind = str(root.path), _OF_PERSON[verb]
            yield InboxItem(place, kind, f"{id_} {target}", action.reason, lines, mark, id_)
