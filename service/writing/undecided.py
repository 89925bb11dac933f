"""Nothing starts over a hand edit that it would rest on, and that nobody has decided on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.errors import NeedsConsent
from projections.screens.starting import resting_on
from service.files.undecided import Edit, undecided
from service.files.workflow_files import STATE

if TYPE_CHECKING:
    from service.writing.workflow_service import Service


class UndecidedEdit(NeedsConsent):
    """Nothing is dispatched over a definitional hand edit that it would rest on."""

    code = "undecided_edit"

    def __init__(self, stage: str, edits: list[Edit]) -> None:
        listed = "".join(f"\n  {edit}" for edit in edits)
        super().__init__(
            f"{stage} is not dispatched: {STATE} was edited by hand, and nobody has decided on it:"
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
