"""From a command to events: the rules of its kind, and what follows by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from lifecycle.errors import (
    LOST,
    AlreadyExists,
    BudgetLeft,
    InvalidPayload,
    NoCommand,
    NotFinished,
    NothingHinders,
    NothingLeft,
    NoWorkflow,
    Refused,
    UnknownEventType,
    undecided,
)
from lifecycle.event import DECIDED, State, facts_of
from lifecycle.fold.evolve import steps
from lifecycle.payload import models as p
from lifecycle.payload.event_types import OF_MACHINES, STAGED, misfit
from lifecycle.rules import stages
from lifecycle.rules.mandates import check_start
from lifecycle.state.conditions import affords, budget_of, charges, hindrances
from lifecycle.state.status import BLOCKING, FINISHED, Status, retry_limit
from lifecycle.state.workflow import Drift, Stage, Workflow
from lifecycle.words.document import STAGE_FIELDS, WORKFLOW_FIELDS
from lifecycle.words.mandates import MANDATES
from lifecycle.words.rounds import ROUNDS
from lifecycle.words.values import too_much

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


#: Event type → the fields of its model, in their order. Each holds a text, true or false, a whole
#: number or null, the model changes none, and no rule needs more of them.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "note.logged": ("text", "stage", "kind", "after", "raw"),
    "stage.prepared": ("stage", "detail"),
}
_FLAT = frozenset({str, int, bool, type(None)})


class Flat:
    """What the model of its type would say of the same data; anything else it asks the model."""

    __slots__ = ("_data", "schema_version", "type")

    def __init__(self, type_: str, data: dict[str, Any]) -> None:
        self.type = type_
        self.schema_version = STAGED[type_].version
        self._data = data

    def as_json(self) -> dict[str, Any]:
        """Its data as JSON values, in the order of the model's fields."""
        return self._data.copy()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._data:
            return self._data[name]

        return getattr(model_of(self.type).of(self.as_json()), name)


def flat(type_: str, data: dict[str, Any]) -> Flat | None:
    """Return a command by its shape; None if only the model can say what it is."""
    names = FIELDS.get(type_)
    if names is None or not _FLAT.issuperset(map(type, data.values())):
        return None
    given = data.copy()
    if misfit(type_, given) is not None or not all(map(_is_unicode, given.values())):
        return None
    return Flat(type_, {name: given[name] for name in names})


def _is_unicode(value: Any) -> bool:
    """Whether a value can be written as UTF-8: half of a pair of surrogates cannot."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


def model_of(type_: str) -> type[Payload]:
    """Return the model of an event type's data, be it of a workflow or of a machine."""
    if type_ in STAGED:
        from lifecycle.payload import models as payload

        found: type[Payload] = getattr(payload, STAGED[type_].model)
    else:
        from lifecycle.machines import payload as of_machines

        found = getattr(of_machines, OF_MACHINES[type_].model)
    return found


def payload_of(type_: str, data: dict[str, Any]) -> Payload:
    """Return the payload of this type; raises `UnknownEventType` or `InvalidPayload`."""
    if type_ not in STAGED:
        raise UnknownEventType(type_, sorted(STAGED))
    plain = flat(type_, data)
    if plain is not None:
        return cast("Payload", plain)

    model = model_of(type_)
    from pydantic import ValidationError  # its model has loaded it

    try:
        return model.of(data)
    except ValidationError as error:
        from lifecycle.words.values import problem

        raise InvalidPayload(type_, [problem(e) for e in error.errors()]) from error


Decision: TypeAlias = "list[Payload]"


def note(state: Workflow, command: p.NoteLogged) -> Decision:
    """A line of one's own; an external one is only taken from where it stands."""
    if command.kind != "note" or command.after is not None or command.raw is not None:
        raise NoCommand(
            "a line of somebody else's is recorded where it is found in progress.log, by every "
            "write command; append it there, or record a note.",
            type=command.type,
        )
    if command.stage is not None:
        state.stage(command.stage)
    return [command]


def adopt(state: Workflow, command: p.DriftAdopted) -> Decision:
    """Close a drift that is open; the fields it brings must be nobody's."""
    drift = _waiting(state, command.file, command.detected)
    for change in command.unknown:
        _unspecified(state, change)
    return [command.model_copy(update={"detected": drift.version})]


def revert(state: Workflow, command: p.DriftReverted) -> Decision:
    """Close a drift that is open."""
    drift = _waiting(state, command.file, command.detected)
    if not command.proof:
        raise undecided(command.type, f"wfctl drift revert {command.file}")
    return [command.model_copy(update={"detected": drift.version, "kept_as": drift.kept_as})]


def _waiting(state: Workflow, file: str, detected: int | None) -> Drift:
    """Return the drift of a file that was detected at a version, else the newest."""
    for drift in reversed(state.drifts):
        if drift.file == file and detected in (drift.version, None):
            return drift
    raise NoCommand(
        f"no change of {file}{f' detected at version {detected}' if detected else ''} waits for "
        "a decision. `wfctl drift show` lists those that do.",
        file=file,
        detected=detected,
        waiting={str(drift.version): drift.file for drift in state.drifts},
    )


def _unspecified(state: Workflow, change: p.UnknownField) -> None:
    known = STAGE_FIELDS if change.stage is not None else (*WORKFLOW_FIELDS, MANDATES, ROUNDS)
    if change.stage is not None:
        state.stage(change.stage)
    if change.field in known:
        raise Refused(
            f"{change.field} is a field of the protocol: it changes by its own events or by an "
            "amendment.",
            field=change.field,
        )


def start(state: Workflow, command: p.SessionStarted) -> Decision:
    """A session of the next number; how the one before it ended is said first.

    The log alone numbers sessions. One that was open still has died: nothing ends it any more.
    """
    number = state.session.count + 1
    return [*_previous(state), command.model_copy(update={"number": number})]


def _previous(state: Workflow) -> Decision:
    before = state.session
    if before.count == 0:
        return []
    ended = f"Previous session ended: exit_reason={before.exit_reason or 'null'}"
    notes = [f"{ended}, cost={before.cost:g}/{budget_of(state):g}"]
    if before.is_open:
        notes.append(f"WARNING: session {before.count} has no end in the log: it died")
    return [p.NoteLogged(text=text) for text in notes]


def end(state: Workflow, command: p.SessionEnded) -> Decision:
    """The end of the open session, and before it the reason that the protocol spells out."""
    if not state.session.is_open:
        raise NoCommand("no session is open; `wfctl session start` begins one.", type=command.type)
    left = [stage for stage in state.stages.values() if stage.status not in FINISHED]
    if command.reason == "completed" and not state.is_finished:
        raise NotFinished([stage.id for stage in left], state.open_loops)
    if command.reason == "budget_exhausted" and all(affords(state, stage) for stage in left):
        raise BudgetLeft(state.session.cost, budget_of(state))
    if command.reason != "completed" and state.is_finished:
        raise NothingLeft(command.reason)
    if command.reason == "blocked" and not command.next and not hindrances(state):
        raise NothingHinders
    return [*_reasons(state, command), command]


def _reasons(state: Workflow, command: p.SessionEnded) -> Decision:
    if command.reason == "budget_exhausted":
        cost, budget = state.session.cost, budget_of(state)
        text = f"Session ending: budget exhausted (cost={cost:g}, budget={budget:g})"
        return [p.NoteLogged(text=text)]
    if command.reason == "blocked":
        return [p.NoteLogged(text=f"Session ending: blocked. {one}") for one in hindrances(state)]
    return []


_HELD = frozenset({Status.PENDING, Status.INVALIDATED})
_WAITING = _HELD | {Status.READY}


def consequences(state: Workflow, at: str) -> list[Payload]:
    """Return what is due in ``state`` at ``at`` and was not recorded yet, in array order."""
    found: list[Payload] = [*charges(state)]
    for stage in state.stages.values():
        if stage.status is Status.FAILED:
            found += _of_failed(state, stage)
        elif stage.status in _WAITING:
            found += _of_waiting(state, stage)
    if state.is_finished and state.workflow_status != "completed":
        from lifecycle.state.report_path import report_path

        report = report_path(state, at)
        found.append(p.WorkflowCompleted(stages=len(state.stages), report=report))
    return found


def _of_waiting(state: Workflow, stage: Stage) -> list[Payload]:
    if stage.status in _HELD and not state.unmet(stage):
        return [p.StageReadied(stage=stage.id, reset=stage.status is Status.INVALIDATED)]
    return [
        p.StageBlocked(
            stage=stage.id,
            dependency=dep,
            dependency_status=cast("Literal['failed', 'skipped']", status.value),
        )
        for dep in stage.depends_on
        if (status := state.stages[dep].status) in BLOCKING
        and stage.blocked_by.get(dep) != status
        and state.stages[dep].rerun_by is None
    ]


def _of_failed(state: Workflow, stage: Stage) -> list[Payload]:
    """A failed stage runs again by itself only where an approved amendment says so."""
    if stage.rerun_by is None or state.unmet(stage):
        return []
    rerun = state.amendments[stage.rerun_by].kind == "stage_rerun"
    reason = f"{'rerun' if rerun else 'superseded'} by {stage.rerun_by}"
    # What a person agreed to when no retry was left begins with all of them.
    reset = rerun or stage.retry_count >= retry_limit(state.backend_type(stage))
    return [p.StageReadied(stage=stage.id, reason=reason, reset=reset, amendment=stage.rerun_by)]


def require_recordable(planned: Iterable[Payload], before: State | None, after: State) -> None:
    """Raise `InvalidPayload` for an event that would be ignored, or that is too large.

    ``before`` and ``after`` are the states around the planned events.
    """
    for payload in planned:
        data = payload.as_json()
        why = misfit(payload.type, data) or too_much(payload.type, data)
        if why is not None:
            raise InvalidPayload(payload.type, [why])
    known = len(before.set_aside) if before is not None else 0
    for one in after.set_aside[known:]:
        raise InvalidPayload(one["type"], [one["why"]])


def decide(state: Workflow | None, command: Payload, at: str) -> Decision:
    """Return the events that ``command`` yields in ``state``; an empty list changes nothing.

    ``at`` is when it is so (UTC, ISO 8601). Raises a `LifecycleError` where the rules do not
    allow it; the state is never changed.
    """
    planned, _ = decide_all(state, [(command, at)])
    return [event for event, _ in planned]


#: Nothing ever follows from these by themselves. To look for consequences takes time for each
#: stage that there is, and a look at the disk records these of as many attempts.
_QUIET = frozenset(
    {"attempt.observed", "attempt.left", "stage.launched", "stage.computed", "tasks.observed"}
)


def decide_all(
    state: Workflow | None, asked: Iterable[tuple[Payload, str]]
) -> tuple[list[tuple[Payload, str]], Workflow | None]:
    """Return what commands yield one after another, and the state after them.

    Each command and each event comes with when it is so. As `decide`; the state is copied once,
    however many commands there are. Raises `InvalidPayload` for an event that nobody could fold.
    """
    draft = state.draft() if state is not None else None
    planned: list[tuple[Payload, str]] = []
    for command, at in asked:
        events = _primary(draft, command)
        if draft is not None and command.type == "attempt.started":
            check_start(draft, cast("p.AttemptStarted", command), at)
        draft = _folded(draft, events, at)
        if any(event.type not in _QUIET for event in events):
            due = consequences(draft, at)
            draft = _folded(draft, due, at)
            events = [*events, *due]
        planned += [(event, at) for event in events]
    if draft is not None:
        require_recordable((event for event, _ in planned), state, draft)
    return planned, draft


def after(state: Workflow | None, events: Decision, at: str) -> Workflow:
    """Return the state as it would be once ``events`` are recorded at ``at``."""
    return _folded(state.draft() if state is not None else None, events, at)


def _primary(state: Workflow | None, command: Any) -> Decision:
    """Return the event that is asked for, without what follows from it."""
    if state is None:
        return _create(command)
    of_stage = stages.RULES.get(command.type)
    if of_stage is not None:
        return of_stage(state, state.stage(command.stage), command)
    rule = _RULES.get(command.type)
    if rule is None:
        raise NoCommand(
            f"{command.type} is not recorded by a command of its own: it follows from others.",
            type=command.type,
        )
    return rule(state, command)


def _folded(draft: Workflow | None, events: Decision, at: str) -> Workflow:
    """Fold events into the draft, which is changed; create the draft if needed."""
    head = draft.head if draft is not None else 0
    for _, folded in steps(draft, facts_of(events, at, head), frozenset({DECIDED})):
        draft = folded
    if draft is None:
        raise NoWorkflow("nothing was decided on a stream without a workflow")
    return draft


def _create(command: Payload) -> Decision:
    if not isinstance(command, p.WorkflowCreated | p.WorkflowImported):
        raise NoWorkflow(
            f"there is no workflow in this stream yet; `wfctl init PLAN` makes one. {LOST}",
            type=command.type,
        )
    # No matter who begins it, and how: under `trust` alone nobody need agree to the plan.
    return [command.model_copy(update={"proposed": command.consent != "trust"})]


def _exists(state: Workflow, command: Any) -> Decision:
    raise AlreadyExists(
        f"the workflow {state.id} is here already (version {state.head} of its log); "
        "a root holds one staged workflow. `wfctl status` shows it.",
        workflow=state.id,
    )


def _as_asked(state: Workflow, command: Payload) -> Decision:
    return [command]


def _files(state: Workflow, command: p.FilesRecorded) -> Decision:
    if not state.is_beginning:
        raise NoCommand(
            "files.recorded is said where a workflow begins, and at no other time.",
            type=command.type,
        )
    return [command]


def _of_amendment(state: Workflow, command: Any) -> Decision:
    # Only where there is one: it loads the models of a plan.
    from lifecycle.rules import amendments

    match command.type:
        case "amendment.proposed":
            return amendments.propose(state, command)
        case "amendment.rejected":
            return amendments.reject(state, command)
    if not command.proof:
        way = f"wfctl amend approve {command.amendment}"
        raise undecided(command.type, way, amendment=command.amendment)
    return amendments.approve(state, command)


def _of_loop(state: Workflow, command: Any) -> Decision:
    from lifecycle.rules import rounds  # only if there is a loop

    return (rounds.begin if command.type == "round.begun" else rounds.stop)(state, command)


_RULES: dict[str, Callable[[Workflow, Any], Decision]] = {
    "workflow.created": _exists,
    "workflow.imported": _exists,
    "files.recorded": _files,
    "note.logged": note,
    "drift.adopted": adopt,
    "drift.reverted": revert,
    "amendment.proposed": _of_amendment,
    "amendment.approved": _of_amendment,
    "amendment.rejected": _of_amendment,
    "session.started": start,
    "session.ended": end,
    "cost.charged": _as_asked,
    "round.begun": _of_loop,
    "loop.stopped": _of_loop,
}
