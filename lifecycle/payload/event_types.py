"""All event types, with their schema versions, models and upcasters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lifecycle.payload.data_shapes import SHAPES


def add_empty_check_findings(data: dict[str, Any]) -> dict[str, Any]:
    """Add an empty list of findings to each check in the data of version 1."""
    checks = [{"findings": [], **check} for check in data.get("checks", [])]
    return {**data, "checks": checks}


def add_empty_failure_fields(data: dict[str, Any]) -> dict[str, Any]:
    """Add empty diagnosis fields to the data of a failed stage in version 1."""
    new: dict[str, Any] = {"category": None, "because": None, "stop": False, "outputs": []}
    return {**new, **add_empty_check_findings(data)}


def add_empty_round_to_grounds(data: dict[str, Any]) -> dict[str, Any]:
    """Add an empty round number to the grounds (the digests on which a result rests)."""
    grounds = data.get("rests_on")
    return {**data, "rests_on": grounds and {**grounds, "round": None}}


Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def _upcast_with_defaults(**added: Any) -> Upcaster:
    """Return a function that adds fields with default values to data of an older version."""
    return lambda data: {**added, **data}


#: For each event type, functions that convert its data from one schema version to the next,
#: starting with version 1.
_LIFTED: Mapping[str, tuple[Upcaster, ...]] = {
    "amendment.approved": (
        _upcast_with_defaults(scripts={}),
        _upcast_with_defaults(),
    ),  # the plan can be approved since
    # Version 3 added no field: since then, an amendment can change several stages.
    "amendment.proposed": (
        _upcast_with_defaults(also=[]),
        _upcast_with_defaults(),
        _upcast_with_defaults(from_round=None),
    ),
    "amendment.rejected": (_upcast_with_defaults(),),
    "attempt.left": (_upcast_with_defaults(exchanged=[]),),
    "attempt.observed": (_upcast_with_defaults(waiting=None),),
    "attempt.started": (
        _upcast_with_defaults(scripts={}),
        _upcast_with_defaults(taken_over=False, carried=[], carried_from=None),
        _upcast_with_defaults(environment=None),
        _upcast_with_defaults(beside=None),
        _upcast_with_defaults(tasks=None, code=None),
        _upcast_with_defaults(variables={}, variables_key=None, program=None),
        _upcast_with_defaults(programs=[]),
        _upcast_with_defaults(requested={}),
    ),
    "drift.adopted": (_upcast_with_defaults(rest=[]),),
    "drift.reverted": (_upcast_with_defaults(approved_by=None, proof={}),),
    "machine.approved": (_upcast_with_defaults(files=None), _upcast_with_defaults(fields=None)),
    "machine.cancelled": (_upcast_with_defaults(anew=False, earlier={}),),
    "machine.created": (
        _upcast_with_defaults(earlier={}),
        _upcast_with_defaults(proposed=False),
        _upcast_with_defaults(own=False),
    ),
    "machine.imported": (
        _upcast_with_defaults(proposed=False),
        _upcast_with_defaults(earlier={}, task_earlier={}),
        _upcast_with_defaults(own=False),
    ),
    "machine.task_changed": (_upcast_with_defaults(earlier={}),),
    "machine.task_claimed": (_upcast_with_defaults(handle=None),),
    "machine.transitioned": (_upcast_with_defaults(earlier={}),),
    "machine.updated": (_upcast_with_defaults(removed=[]),),
    "outputs.recorded": (_upcast_with_defaults(found=False),),
    "results.adopted": (
        _upcast_with_defaults(approved_by=None, proof={}, rests_on=None),
        _upcast_with_defaults(metrics=[]),
        _upcast_with_defaults(deleted=[]),
        add_empty_round_to_grounds,
    ),
    "session.started": (_upcast_with_defaults(driven=False, environment=None, report=None),),
    "stage.completed": (
        add_empty_check_findings,
        _upcast_with_defaults(rests_on=None),
        _upcast_with_defaults(metrics=[]),
        add_empty_round_to_grounds,
        _upcast_with_defaults(check_files={}),
    ),
    "stage.computed": (_upcast_with_defaults(resources={}),),
    "stage.failed": (
        add_empty_failure_fields,
        _upcast_with_defaults(output=None),
        _upcast_with_defaults(metrics=[], resources={}),
        _upcast_with_defaults(check_files={}),
        _upcast_with_defaults(short_of=None),
    ),
    "stage.readied": (_upcast_with_defaults(grown=None),),
    "stage.retried": (_upcast_with_defaults(failed_only=False, approved_by=None, proof={}),),
    "stage.launched": (
        _upcast_with_defaults(work_dir=None, job_host=None, job_boot_id=None, again=False),
    ),
    "state.imported": (_upcast_with_defaults(spelling={}),),
    "tasks.observed": (_upcast_with_defaults(journals=[], edited=[], late=[]),),
    "workflow.created": (_upcast_with_defaults(proposed=False),),
    "workflow.imported": (_upcast_with_defaults(proposed=False),),
}
#: For each event type and schema version, the function that converts the data to the next version.
UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    (name, version): lift
    for name, lifts in _LIFTED.items()
    for version, lift in enumerate(lifts, 1)
}


class EventType(NamedTuple):
    """The class name of an event type's model, and the current schema version of the type."""

    model: str
    version: int


def event_type_of_model(model: str) -> str:
    """Return the event type of a model class, such as ``stage.readied`` for ``StageReadied``."""
    first, *others = re.findall("[A-Z][a-z]*", model)
    return f"{first}.{'_'.join(others)}".lower()


# Every command that reads the log builds this dictionary. For speed, the code calls few functions.
_EVERY = {
    name: EventType(
        "".join(map(str.capitalize, re.split("[._]", name))), 1 + len(_LIFTED.get(name, ()))
    )
    for name in re.findall(r"^([a-z]+\.[a-z_]+) ", SHAPES, re.MULTILINE)
}
#: Event types of workflows; their models are in `lifecycle.payload.models`.
STAGED = {name: one for name, one in _EVERY.items() if not name.startswith("machine.")}
#: Event types that only phase machines (of agent protocols) use. Their models are in
#: `extensions.machines.rules.payload`.
MACHINE_TYPES = {name: one for name, one in _EVERY.items() if name not in STAGED}
#: Types of events that wfctl records only after it has inspected a job and its files. Callers
#: cannot record them.
OBSERVED_TYPES = frozenset(
    {"files.recorded", "attempt.left", "attempt.stopped", "round.begun"}
    | {"leftovers.freed", "outputs.reused", "tasks.observed"}
)
#: Types of events that record a person's decision with a proof of consent, in addition to
#: amendments and approvals.
PERSON_TYPES = frozenset(
    {"audit.agreed", "claim.overruled", "drift.reverted", "machine.limited", "results.adopted"}
)


def is_decision_of_person(type_: str, data: Mapping[str, Any]) -> bool:
    """Return whether an event records a person's decision and must contain a proof of consent."""
    return type_ in PERSON_TYPES or (type_ == "stage.retried" and bool(data.get("failed_only")))


#: The current schema version of each event type.
VERSIONS: Mapping[str, int] = {name: known.version for name, known in _EVERY.items()}


"""A value → the problem of the value, None if it is valid."""
