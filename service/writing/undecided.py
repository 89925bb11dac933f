"""Nothing starts over a hand edit that it would rest on, and that nobody has decided on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.errors import NeedsConsent
from lifecycle.state.status import ACTIVE
from projections.screens.starting import is_due, resting_on
from service.files.undecided import Edit, undecided
from service.files.workflow_files import STATE

if TYPE_CHECKING:
    from service.writing.workflow_service import Service


class UndecidedEdit(NeedsConsent):
    """Nothing is dispatched over a definitional hand edit that it would rest on."""

    code = "undecided_edit"

    def __init__(self, stage: str | None, edits: list[Edit]) -> None:
        listed = "".join(f"\n  {edit}" for edit in edits)
        subject = "nothing is" if stage is None else f"{stage} is not"
        super().__init__(
            f"{subject} dispatched: {STATE} was edited by hand, and nobody has decided on it:"
            f"{listed}\n`wfctl drift adopt` proposes it as an amendment, `wfctl drift revert` goes "
            "on with what the log has.",
            stage=stage,
            file=STATE,
            edits=[edit.to_dict() for edit in edits],
        )


def check_edits(service: Service, stage: str) -> None:
    """Raise `UndecidedEdit` where somebody edited what the stage rests on, and nobody decided."""
    service.files.take_in()
    state = service.state()
    # Without one that waits nothing has to be compared.
    if not state.drifts:
        return
    concerned = resting_on(state, stage)
    edits = [one for one in undecided(service.root, service.log, state) if one.stage in concerned]
    if edits:
        raise UndecidedEdit(stage, edits)


def check_edits_of_all(service: Service) -> None:
    """Raise `UndecidedEdit` where an edit that nobody decided on keeps all from going on.

    It is one of the workflow's own fields, or all that is due rests on one, and nothing runs.
    """
    service.files.take_in()
    state = service.state()
    if not state.drifts:
        return
    edits = undecided(service.root, service.log, state)
    edited = {one.stage for one in edits}
    going = [one for one in state.stages.values() if one.open_attempt or one.status in ACTIVE]
    due = [one for one in state.stages.values() if is_due(state, one)]
    held = [one for one in due if edited & set(resting_on(state, one.id))]
    if None in edited or (edits and due and held == due and not going):
        raise UndecidedEdit(None, edits)
