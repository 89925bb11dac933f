"""Stop a command while a hand edit of a file waits for a person's decision."""

from __future__ import annotations

from lifecycle.errors import NeedsConsent
from lifecycle.payload import models as p
from lifecycle.state.status import ACTIVE
from lifecycle.state.workflow import Workflow
from projections.screens.next_actions import is_ready_to_start, list_affecting_field_owners
from service.files.foreign_changes import Edit, find_undecided_edits
from service.files.workflow_files import STATE
from service.writing.workflow_service import Service


class UndecidedEdit(NeedsConsent):
    """A manual edit waits for a decision, so wfctl does not start the stages it affects."""

    code = "undecided_edit"

    def __init__(self, stage: str | None, edits: list[Edit]) -> None:
        listed = "".join(f"\n  {edit}" for edit in edits)
        subject = "nothing is" if stage is None else f"{stage} is not"
        super().__init__(
            f"{subject} dispatched, because {STATE} was edited by hand and nobody has decided "
            f"about the change:{listed}\nRun `wfctl drift adopt` to propose the change as an "
            "amendment, or `wfctl drift revert` to discard it.",
            stage=stage,
            file=STATE,
            edits=[edit.to_dict() for edit in edits],
        )


def check_no_undecided_edits(service: Service, stage: str) -> None:
    """Raise `UndecidedEdit` if a manual edit that affects the stage waits for a decision."""
    state, found = _read_undecided_edits(service)
    concerned = list_affecting_field_owners(state, stage) if found else ()
    edits = [one for one in found if one.stage in concerned]
    if edits:
        raise UndecidedEdit(stage, edits)


def _read_undecided_edits(service: Service) -> tuple[Workflow, list[Edit]]:
    service.files.record_foreign_changes()
    state = service.state()
    # If no manual edit waits for a decision, skip the comparison of the documents.
    return state, find_undecided_edits(service.root, service.log, state) if state.drifts else []


def check_run_can_continue(service: Service) -> None:
    """Raise an error if `wfctl run` cannot continue because a decision is missing.

    Raises `NeedsConsent` while the plan waits for approval. Raises `UndecidedEdit` for a manual
    edit of a workflow field. It is also raised if manual edits affect all stages that could start
    and no stage is running.
    """
    service.rehearse(p.SessionStarted())
    state, edits = _read_undecided_edits(service)
    if not edits:
        return
    edited = {one.stage for one in edits}
    going = [one for one in state.stages.values() if one.open_attempt or one.status in ACTIVE]
    due = [one for one in state.stages.values() if is_ready_to_start(state, one)]
    held = [one for one in due if edited & set(list_affecting_field_owners(state, one.id))]
    if None in edited or (due and held == due and not going):
        raise UndecidedEdit(None, edits)
