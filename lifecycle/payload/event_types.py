"""Every event type there is: which schema version is written, and which model holds its data.

Who reads a log needs this alone, and none of the models, which take longer to load than most
commands to run. The names are those of the models, as the shapes have them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lifecycle.payload.shapes import SHAPES


def checks_with_findings(data: dict[str, Any]) -> dict[str, Any]:
    """Give each check the list of its findings; in the first version it had none."""
    checks = [{"findings": [], **check} for check in data.get("checks", [])]
    return {**data, "checks": checks}


def failure_with_category(data: dict[str, Any]) -> dict[str, Any]:
    """Give a failure the place of its diagnosis; at first nobody wrote one, or ended an attempt."""
    new: dict[str, Any] = {"category": None, "because": None, "stop": False, "outputs": []}
    return {**new, **checks_with_findings(data)}


Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def _with(**added: Any) -> Upcaster:
    """Return an upcaster for fields that came, each with what it was before it could be said."""
    return lambda data: {**added, **data}


#: Event type → what lifts its data from each schema version to the next.
_LIFTED: Mapping[str, tuple[Upcaster, ...]] = {
    "amendment.approved": (_with(scripts={}), _with()),  # the plan can be approved since
    "amendment.proposed": (_with(also=[]), _with()),  # several stages are changed at once since
    "amendment.rejected": (_with(),),
    "attempt.started": (
        _with(scripts={}),
        _with(taken_over=False, carried=[], carried_from=None),
        _with(environment=None),
        _with(beside=None),
    ),
    "drift.adopted": (_with(rest=[]),),
    "drift.reverted": (_with(approved_by=None, proof={}),),
    "machine.approved": (_with(files=None), _with(fields=None)),
    "machine.cancelled": (_with(anew=False, earlier={}),),
    "machine.created": (_with(earlier={}), _with(proposed=False), _with(own=False)),
    "machine.imported": (
        _with(proposed=False),
        _with(earlier={}, task_earlier={}),
        _with(own=False),
    ),
    "machine.task_changed": (_with(earlier={}),),
    "machine.task_claimed": (_with(handle=None),),
    "machine.transitioned": (_with(earlier={}),),
    "machine.updated": (_with(removed=[]),),
    "outputs.recorded": (_with(found=False),),
    "results.adopted": (_with(approved_by=None, proof={}, rests_on=None),),
    "session.started": (_with(driven=False, environment=None, report=None),),
    "stage.completed": (checks_with_findings, _with(rests_on=None)),
    "stage.failed": (failure_with_category, _with(output=None)),
    "stage.launched": (_with(work_dir=None, job_host=None, job_boot_id=None, again=False),),
    "state.imported": (_with(spelling={}),),
    "tasks.observed": (_with(journals=[], edited=[], late=[]),),
    "workflow.created": (_with(proposed=False),),
    "workflow.imported": (_with(proposed=False),),
}
#: (event type, schema version) → what lifts its data by one version.
UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    (name, version): lift
    for name, lifts in _LIFTED.items()
    for version, lift in enumerate(lifts, 1)
}


class EventType(NamedTuple):
    """The name of the model of its data, and the schema version that is written today."""

    model: str
    version: int


def type_of(model: str) -> str:
    """Return the event type of the model of this name: ``stage.readied`` of ``StageReadied``."""
    first, *others = re.findall("[A-Z][a-z]*", model)
    return f"{first}.{'_'.join(others)}".lower()


def version_of(type_: str) -> int:
    """Return the schema version that is written today: one more than is lifted."""
    return 1 + len(_LIFTED.get(type_, ()))


def _model_of(type_: str) -> str:
    return "".join(map(str.capitalize, re.split("[._]", type_)))


_EVERY = {
    name: EventType(_model_of(name), version_of(name))
    for name in re.findall(r"^([a-z]+\.[a-z_]+) ", SHAPES, re.MULTILINE)
}
#: Those of the staged workflow; their models are in `lifecycle.payload.models`.
STAGED = {name: one for name, one in _EVERY.items() if not name.startswith("machine.")}
#: Those that are only of phase machines; their models are in `lifecycle.machines.payload`.
OF_MACHINES = {name: one for name, one in _EVERY.items() if name not in STAGED}
#: What only a look at the job itself can tell: no caller says it, not even a person.
OF_A_LOOK = frozenset(
    {"files.recorded", "attempt.left", "attempt.stopped"}
    | {"leftovers.freed", "outputs.reused", "tasks.observed"}
)
#: What a person decides, each with a proof of consent, beside amendments and approvals.
OF_A_PERSON = frozenset({"claim.overruled", "drift.reverted", "machine.limited", "results.adopted"})
#: Event type → the schema version that is written today.
VERSIONS: Mapping[str, int] = {name: known.version for name, known in _EVERY.items()}
