"""Register the extension ``machines`` with the core of wfctl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.frame.context import Context
from wfctl_eventstore.extension import Extension, Follower

if TYPE_CHECKING:
    from cli.frame.workspace import OpenedWorkflow
    from eventstore.store import EventStore
    from lifecycle.payload.base import Payload
    from projections.screens.inbox import InboxItem
    from service.files.inspection import Difference
    from service.questions.blame import Blame
    from service.reading.point_in_history import Moment
    from service.reading.stream_log import StreamLog


class MachinesExtension(Extension):
    """Run phase machines, which track the work of agents through a series of phases."""

    commands = {
        "machine init": "extensions.machines.commands.create_machine",
        "machine import": "extensions.machines.commands.create_machine",
        "machine get": "extensions.machines.commands.show_machines",
        "machine list": "extensions.machines.commands.show_machines",
        "machine check": "extensions.machines.commands.show_machines",
        "machine describe": "extensions.machines.commands.show_machines",
        "machine update": "extensions.machines.commands.changes",
        "machine transition": "extensions.machines.commands.changes",
        "machine append": "extensions.machines.commands.changes",
        "machine task": "extensions.machines.commands.changes",
        "machine task claim": "extensions.machines.commands.changes",
        "machine task release": "extensions.machines.commands.changes",
        "machine checkpoint": "extensions.machines.commands.changes",
        "machine cancel": "extensions.machines.commands.changes",
        "machine approve": "extensions.machines.commands.changes",
        "machine limit": "extensions.machines.commands.changes",
        "machine rehydrate": "extensions.machines.commands.show_machines",
        "machine drift": "extensions.machines.commands.show_machines",
    }
    help_sections = {
        "Agents": {
            "machine": "Track the work of an agent through phases (phase machine)",
        },
    }
    groups = {"machine": "list"}

    def open_machine_log(self, store: EventStore, id_: str, folder: Path) -> StreamLog[Any]:
        """Return the event log of a phase machine."""
        from extensions.machines.service.log import MachineLog

        return MachineLog(store, id_, folder)

    def machine_not_found(self, id_: str) -> Exception:
        """Return the error that reports that a machine does not exist."""
        from extensions.machines.rules.errors import StateNotFound

        return StateNotFound(id_, [])

    def find_event_model(self, type_: str) -> type[Payload]:
        """Return the data model of an event type of machines."""
        from extensions.machines.rules import payload
        from lifecycle.payload.event_types import MACHINE_TYPES

        found: type[Payload] = getattr(payload, MACHINE_TYPES[type_].model)
        return found

    def list_schemas(self, only: str | None) -> dict[str, Any]:
        """Return JSON Schemas by name, for definitions and the files of built-in types."""
        from extensions.machines.commands.schemas import list_schemas

        return list_schemas(only)

    def describe_machine_event(self, type_: str, data: dict[str, Any]) -> str:
        """Return an English sentence that describes an event of a machine."""
        from extensions.machines.views.history import format_event

        return format_event(type_, data)

    def render_machine_documents(self, state: Any) -> dict[str, dict[str, Any]]:
        """Return the content of each state file of a machine, by path."""
        from extensions.machines.views.documents import build_documents

        return build_documents(state)

    def print_machine_documents(self, context: Context, id_: str, view: Moment | None) -> None:
        """Print the content of a machine's state files, now or at a moment."""
        from extensions.machines.commands.show_machines import print_documents

        print_documents(context, id_, view)

    def rebuild_machine_files(self, context: Context, id_: str) -> list[str]:
        """Write the state files of a machine again, and return the paths of changed files."""
        from extensions.machines.commands.output import open_for_writing

        with open_for_writing(context, id_, dry_run=False) as (service, _):
            return service.files.rebuild()

    def find_machine_differences(self, workflow: OpenedWorkflow, id_: str) -> list[Difference]:
        """Return the state files of a machine whose content differs from its log."""
        from extensions.machines.service.inspection import list_differences
        from extensions.machines.service.log import MachineLog

        log = MachineLog(workflow.store, id_, workflow.root.path)
        return list_differences(workflow.root, log, log.current())

    def explain_machine(
        self, workflow: OpenedWorkflow, id_: str, view: Moment | None
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the explanation of a machine's phase, as JSON values and as lines."""
        from extensions.machines.commands.explain import explain_phase, format_explanation

        found = explain_phase(workflow, id_, view)
        return found, list(format_explanation(found))

    def blame_machine_field(
        self, workflow: OpenedWorkflow, id_: str, field: str, view: Moment | None
    ) -> list[Blame]:
        """Return the newest change of each field of a machine below a dotted path."""
        from extensions.machines.service.inspection import find_blame
        from extensions.machines.service.log import MachineLog

        return find_blame(MachineLog(workflow.store, id_, workflow.root.path), field, view)

    def open_machine_follower(self, workflow: OpenedWorkflow, id_: str, lines: int) -> Follower:
        """Return a live view of a machine with the newest ``lines`` of its log."""
        from extensions.machines.commands.show_machines import MachineFollower
        from extensions.machines.service.log import MachineLog

        log = MachineLog(workflow.store, id_, workflow.root.path)
        return MachineFollower(log, workflow.root.path, lines)

    def find_machine_decisions(self, workflow: OpenedWorkflow) -> Iterator[InboxItem]:
        """Yield an inbox item for each open decision about a machine in the folder."""
        from extensions.machines.commands.decisions import find_decisions

        return find_decisions(workflow)


EXTENSION = MachinesExtension()
