"""Every event type there is: which schema version is written, and which model holds its data.

Who reads a log needs this alone, and none of the models, which take longer to load than most
commands to run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


def checks_with_findings(data: dict[str, Any]) -> dict[str, Any]:
    """Give each check the list of its findings; in the first version it had none."""
    checks = [{"findings": [], **check} for check in data.get("checks", [])]
    return {**data, "checks": checks}


def failure_with_category(data: dict[str, Any]) -> dict[str, Any]:
    """Give a failure the place of its diagnosis; at first nobody wrote one, or ended an attempt."""
    new: dict[str, Any] = {"category": None, "because": None, "stop": False, "outputs": []}
    return {**new, **checks_with_findings(data)}


class EventType(NamedTuple):
    """The name of the model of its data, and the schema version that is written today."""

    model: str
    version: int = 1


#: Those of the staged workflow; their models are in `lifecycle.payload.models`.
STAGED: Mapping[str, EventType] = {
    "workflow.created": EventType("WorkflowCreated", 2),
    "workflow.imported": EventType("WorkflowImported", 2),
    "line.imported": EventType("LineImported"),
    "state.imported": EventType("StateImported", 2),
    "files.recorded": EventType("FilesRecorded"),
    "workflow.completed": EventType("WorkflowCompleted"),
    "workflow.reopened": EventType("WorkflowReopened"),
    "stage.readied": EventType("StageReadied"),
    "stage.prepared": EventType("StagePrepared"),
    "attempt.started": EventType("AttemptStarted", 5),
    "stage.launched": EventType("StageLaunched", 2),
    "stage.computed": EventType("StageComputed"),
    "claim.overruled": EventType("ClaimOverruled"),
    "stage.completed": EventType("StageCompleted", 3),
    "stage.failed": EventType("StageFailed", 3),
    "stage.retried": EventType("StageRetried"),
    "stage.invalidated": EventType("StageInvalidated"),
    "stage.skipped": EventType("StageSkipped"),
    "stage.blocked": EventType("StageBlocked"),
    "attempt.observed": EventType("AttemptObserved"),
    "attempt.relaunched": EventType("AttemptRelaunched"),
    "attempt.stopped": EventType("AttemptStopped"),
    "attempt.left": EventType("AttemptLeft"),
    "tasks.observed": EventType("TasksObserved", 2),
    "leftovers.freed": EventType("LeftoversFreed"),
    "outputs.recorded": EventType("OutputsRecorded", 2),
    "outputs.reused": EventType("OutputsReused"),
    "outputs.archived": EventType("OutputsArchived"),
    "results.adopted": EventType("ResultsAdopted", 2),
    "results.changed": EventType("ResultsChanged"),
    "checkpoint.recorded": EventType("CheckpointRecorded"),
    "note.logged": EventType("NoteLogged"),
    "amendment.proposed": EventType("AmendmentProposed", 3),
    "amendment.approved": EventType("AmendmentApproved", 3),
    "amendment.rejected": EventType("AmendmentRejected", 2),
    "session.started": EventType("SessionStarted", 2),
    "session.ended": EventType("SessionEnded"),
    "cost.charged": EventType("CostCharged"),
    "drift.detected": EventType("DriftDetected"),
    "drift.adopted": EventType("DriftAdopted", 2),
    "drift.reverted": EventType("DriftReverted", 2),
}
#: Those that are only of phase machines; their models are in `lifecycle.machines.payload`.
OF_MACHINES: Mapping[str, EventType] = {
    "machine.created": EventType("MachineCreated", 4),
    "machine.imported": EventType("MachineImported", 4),
    "machine.updated": EventType("MachineUpdated", 2),
    "machine.transitioned": EventType("MachineTransitioned", 2),
    "machine.recorded": EventType("MachineRecorded"),
    "machine.task_changed": EventType("MachineTaskChanged", 2),
    "machine.task_claimed": EventType("MachineTaskClaimed", 2),
    "machine.task_released": EventType("MachineTaskReleased"),
    "machine.checkpointed": EventType("MachineCheckpointed"),
    "machine.approved": EventType("MachineApproved", 3),
    "machine.withdrawn": EventType("MachineWithdrawn"),
    "machine.limited": EventType("MachineLimited"),
    "machine.cancelled": EventType("MachineCancelled", 2),
}
#: What only a look at the job itself can tell: no caller says it, not even a person.
OF_A_LOOK = frozenset(
    {
        "files.recorded",
        "attempt.left",
        "attempt.stopped",
        "leftovers.freed",
        "outputs.reused",
        "tasks.observed",
    }
)
#: What a person decides, each with a proof of consent, beside amendments and approvals.
OF_A_PERSON = frozenset({"claim.overruled", "drift.reverted", "machine.limited", "results.adopted"})
_EVERY = {**STAGED, **OF_MACHINES}
#: Event type → the schema version that is written today.
VERSIONS: Mapping[str, int] = {name: known.version for name, known in _EVERY.items()}
#: Model → its event type, and the schema version that is written today.
OF_MODEL = {known.model: (name, known.version) for name, known in _EVERY.items()}

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def _with(**added: Any) -> Upcaster:
    """Return an upcaster for fields that came, each with what it was before it could be said."""
    return lambda data: {**added, **data}


#: (event type, schema version) → what lifts its data by one version.
UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    ("amendment.approved", 1): _with(scripts={}),
    ("amendment.approved", 2): _with(),  # the plan can be approved since
    ("amendment.proposed", 1): _with(also=[]),
    ("amendment.proposed", 2): _with(),  # several stages are changed at once since
    ("amendment.rejected", 1): _with(),
    ("attempt.started", 1): _with(scripts={}),
    ("attempt.started", 2): _with(taken_over=False, carried=[], carried_from=None),
    ("attempt.started", 3): _with(environment=None),
    ("attempt.started", 4): _with(beside=None),
    ("drift.adopted", 1): _with(rest=[]),
    ("drift.reverted", 1): _with(approved_by=None, proof={}),
    ("machine.approved", 1): _with(files=None),
    ("machine.approved", 2): _with(fields=None),
    ("machine.cancelled", 1): _with(anew=False, earlier={}),
    ("machine.created", 1): _with(earlier={}),
    ("machine.created", 2): _with(proposed=False),
    ("machine.created", 3): _with(own=False),
    ("machine.imported", 1): _with(proposed=False),
    ("machine.imported", 2): _with(earlier={}, task_earlier={}),
    ("machine.imported", 3): _with(own=False),
    ("machine.task_changed", 1): _with(earlier={}),
    ("machine.task_claimed", 1): _with(handle=None),
    ("machine.transitioned", 1): _with(earlier={}),
    ("machine.updated", 1): _with(removed=[]),
    ("outputs.recorded", 1): _with(found=False),
    ("results.adopted", 1): _with(approved_by=None, proof={}, rests_on=None),
    ("session.started", 1): _with(driven=False, environment=None, report=None),
    ("stage.completed", 1): checks_with_findings,
    ("stage.completed", 2): _with(rests_on=None),
    ("stage.failed", 1): failure_with_category,
    ("stage.failed", 2): _with(output=None),
    ("stage.launched", 1): _with(work_dir=None, job_host=None, job_boot_id=None, again=False),
    ("state.imported", 1): _with(spelling={}),
    ("tasks.observed", 1): _with(journals=[], edited=[], late=[]),
    ("workflow.created", 1): _with(proposed=False),
    ("workflow.imported", 1): _with(proposed=False),
}
