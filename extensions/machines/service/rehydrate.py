"""Resume a machine after a lost session.

The functions compare the log with files and git, repair the state, and find the next step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extensions.machines.rules.decide import list_open_transitions
from extensions.machines.rules.errors import UnsafeResume
from extensions.machines.rules.guard import FileFact, find_field_path, iterate_conditions
from extensions.machines.rules.machine import Machine
from extensions.machines.rules.payload import (
    MachineCancelled,
    MachineTaskChanged,
    MachineTransitioned,
)
from extensions.machines.service import guard_facts
from extensions.machines.service.foreign_changes import decode_object
from extensions.machines.service.guard_facts import (
    collect_pattern_facts,
    collect_task_output_fact,
    read_output_status,
)
from extensions.machines.service.inspection import list_differences
from extensions.machines.service.log import MachineLog
from extensions.machines.service.service import MachineOutcome, MachineService
from extensions.machines.views.documents import build_phase_document as phase_document
from extensions.machines.views.documents import list_file_paths
from lifecycle.payload.base import Payload
from projections.words.text import seconds_since, truncate_utc_to_seconds
from service.root.atomic_files import utc_text
from service.root.paths_within_root import content_within
from service.root.root import Root
from service.writing.stream_writer import WriteOptions

#: Maximum number of rounds. In each round, the repairs of the previous round may allow further
#: steps.
_ROUNDS = 20


def list_machine_drift(root: Root, log: MachineLog, state: Machine) -> list[dict[str, Any]]:
    """Return files, artifacts, branches and worktrees that differ from the recorded state."""
    files = [
        {"kind": f"file_{one.kind}", "file": one.file} for one in list_differences(root, log, state)
    ]
    kept = [{"kind": "hand_edit_kept", "file": d.file, "kept_as": d.kept_as} for d in state.drifts]
    return [*files, *kept, *guard_facts.list_artifact_drift(root.path, state)]


def archive_and_restart(
    service: MachineService, options: WriteOptions, say: Callable[[str], None]
) -> tuple[MachineOutcome, str | None]:
    """Archive the files of a machine, and start the machine again from its first phase.

    If its protocol has no archive, the machine is cancelled instead. ``say`` is called with a
    message before the first change. Returns the result, and the relative path of the archive folder
    or None.
    """
    at = utc_text(service.clock())
    state = service.files.look.preview_foreign_changes().state
    where = service.files.archive_place(state, at)
    command = MachineCancelled(reason="declined to resume", anew=where is not None)
    first = service.first_answer(options, command)
    if first is not None:
        return first, None
    if not (state.is_final or options.dry_run):
        status = f", {state.status}" if state.status is not None else ""
        kept = f"archived in {where} and started again" if where is not None else "given up"
        say(f"{state.id} (in {state.phase}{status}) is {kept}")
        service.files.bring_up_to_date()
        service.files.archive_logged_files(service.state(), at)
    return service.handle(command, options=options._replace(occurred_at=at)), where


# The following functions resume a conductor track after its last task. They compare ``plan.md``
# with the log.


# The following functions resume phased development. The state is validated first; then the work
# continues as far as the output files allow.

_WEEK = 7 * 86_400
#: Findings after which only a person can decide to continue.
_UNSAFE = frozenset({"output_missing", "phase_order", "interruption_unsafe"})


@dataclass(slots=True)
class Resumption:
    """The plan to resume a machine: messages, findings, commands and next actions."""

    resumed: bool
    messages: list[str] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    commands: list[Payload] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)

    def add_finding(self, check: str, message: str) -> None:
        """Add a finding of a check."""
        self.findings.append({"check": check, "message": message})


def resume_phases(
    service: MachineService, options: WriteOptions, *, go_on: bool = False
) -> tuple[Resumption, list[MachineOutcome]]:
    """Resume a machine for phased development, and return the plan and the results.

    The state is validated and repaired, and the machine advances as far as its output files allow.
    Nothing is recorded in a dry run. Raises `UnsafeResume` if the state contradicts the files,
    unless ``go_on`` states that a person chose to continue.
    """
    # Consider the changes of other programs first, so that their completed work is not repaired.
    state = service.files.look.preview_foreign_changes().state
    on_disk = content_within(service.root.path, list_file_paths(state)["phase"])
    first = _build_resumption(service, state, on_disk)
    unsafe = [one for one in first.findings if one["check"] in _UNSAFE]
    if unsafe and not (go_on or options.dry_run):
        raise UnsafeResume(state.id, unsafe)
    if options.dry_run:
        return first, []
    service.files.bring_up_to_date()
    found, done = _build_resumption(service, service.state(), None), list[MachineOutcome]()
    for _ in range(_ROUNDS):
        if not found.commands:
            break
        outcome = service.handle(*found.commands, options=options)
        options = options._replace(command_id=None)
        done.append(outcome)
        found = _build_resumption(service, outcome.state, None)
    first.todo = found.todo or found.messages[:1]
    first.commands = [p for outcome in done for p in outcome.planned]
    return first, done


def _build_resumption(service: MachineService, state: Machine, on_disk: bytes | None) -> Resumption:
    """Return the plan to resume a machine. ``on_disk`` is the content of ``phase.json``."""
    root, now, files = service.root.path, utc_text(service.clock()), service.evidence(state)
    if state.is_final:
        return Resumption(False, [f"{state.id} has ended: {state.phase}"])
    if not state.moves and state.visit.started_at is None and not state.tasks:
        return Resumption(False, [f"{state.id} has not started: nothing can be resumed"])
    # After an import, only the file states the time of the last activity.
    last = (state.visit.updated_at if state.head == 1 else None) or state.updated
    completed = [one["phase"] for one in phase_document(state)["completed_phases"]]
    messages = [
        f"Detected interrupted workflow: {state.id}",
        f"Resuming workflow {state.id} from {state.phase} phase",
        f"Last activity: {truncate_utc_to_seconds(last)}",
        f"Completed: {', '.join(completed) or 'none'}",
    ]
    found = Resumption(True, messages)
    _validate_state(root, state, now, on_disk, found)
    if state.definition.tasks is not None and state.tasks:
        _correct_task_statuses(root, state, now, found)
    _plan_next_step(root, state, files, found)
    return found


def _validate_state(
    root: Path, state: Machine, now: str, on_disk: bytes | None, found: Resumption
) -> None:
    for done in phase_document(state)["completed_phases"]:
        pattern = str(done["output"] or "").removeprefix(f"{root}/")
        if pattern and not collect_pattern_facts(root, [pattern])[pattern].found:
            found.add_finding("output_missing", f"{done['phase']}: {done['output']} is missing")
    began = seconds_since(state.created, now)
    if state.updated > now or (began is not None and began < 0):
        found.add_finding(
            "time_in_future",
            f"the state has a time in the future: {truncate_utc_to_seconds(state.updated)}",
        )
    elif began is not None and began > _WEEK:
        found.add_finding(
            "old_state",
            (
                f"the workflow started {int(began // 86400)} days ago and may be outdated; "
                "check the state before you continue, or archive the state and start again "
                f"with `wfctl machine rehydrate {state.id} --start-fresh`"
            ),
        )
    order = list(state.definition.phases)
    visited = [order.index(name) for name in state.visits if name in order]
    if visited != list(range(len(visited))):
        names = ", ".join(order[index] for index in visited)
        found.add_finding(
            "phase_order", f"the phases were not entered in the defined order: {names}"
        )
    document = decode_object(on_disk)
    if on_disk is not None and document is None:
        found.add_finding(
            "not_whole", "phase.json was incomplete; it was archived and written again"
        )
    elif document is not None and document.get("interruption_safe") is not True:
        said = json.dumps(document.get("interruption_safe"))
        found.add_finding(
            "interruption_unsafe", f"phase.json has interruption_safe: {said}; expected true"
        )


def _correct_task_statuses(root: Path, state: Machine, now: str, found: Resumption) -> None:
    """Add commands that correct the status of running tasks whose worker is gone.

    The new status follows from the output file of the task. A task with a valid reservation is not
    changed.
    """
    known = state.definition.tasks
    for task in state.tasks:
        if known is None or task.get("status") != known.running:
            continue
        id_ = str(task.get("id"))
        if not known.is_id(id_):
            message = f"the id {id_!r:.80} of a running task does not match {known.pattern}"
            found.add_finding("task_unnamed", message)
            continue
        held = state.leases.get(id_)
        if held is not None and held.is_live(now):
            message = (
                f"{id_} is claimed by {held.by} until {held.until}, so wfctl did not change "
                "the task"
            )
            found.add_finding("task_claimed", message)
            continue
        fact = collect_task_output_fact(
            root, state.definition, task, state.task_earlier.get(id_, {})
        )
        status = read_output_status(root, fact, known.statuses)
        reason = "interrupted: the status comes from the output of the task"
        if status is None:
            status, reason = (
                known.statuses[0],
                "interrupted: the task was running and wrote no output",
            )
            if fact.found:
                torn = f"{id_}: {fact.found[0]} is incomplete, and wfctl ignores the file"
                found.add_finding("output_torn", torn)
        changes: dict[str, Any] = {"status": status}
        found.commands.append(MachineTaskChanged(task=id_, changes=changes, reason=reason))


def _plan_next_step(
    root: Path, state: Machine, files: Mapping[str, FileFact], found: Resumption
) -> None:
    ways = list_open_transitions(state, files)
    phase = state.definition.phases[state.phase]
    waiting, output = state.definition.find_phase_approval(state.phase), phase.output
    if not _has_begun(state):
        begin = f"`wfctl machine append {state.id} phase.started`"
        found.todo.append(f"start {state.phase} ({begin}): {phase.asks}")
    elif len(ways) == 1:
        reason = "resumed: the output of the phase exists"
        found.commands.append(MachineTransitioned(to=ways[0].to, reason=reason))
    elif waiting is not None and phase.person and waiting not in state.approvals:
        found.todo.append(_format_approval_request(root, state, waiting, output, phase.options))
    elif (
        output is not None and (lack := _explain_unusable_output(state, files, output)) is not None
    ):
        chosen = state.given[-1].choice if waiting in state.approvals and state.given else None
        found.todo.append(
            (f"continue with the roundtable for {chosen}, which a person chose: {output} {lack}")
            if chosen is not None
            else f"do the work of {state.phase} again: {output} {lack}"
        )
    elif not found.commands:
        found.todo.append(f"continue with {state.phase}: {phase.asks}")


def _has_begun(state: Machine) -> bool:
    statuses, tasks = state.definition.statuses, state.definition.tasks
    if state.approvals or not (statuses is None or state.status == statuses.initial):
        return True
    guards = [
        part for way in state.definition.ways(state.phase) for part in iterate_conditions(way.guard)
    ]
    is_of_tasks = tasks is not None and any(find_field_path(part) == tasks.path for part in guards)
    return is_of_tasks and any(task.get("started_at") for task in state.tasks)


def _explain_unusable_output(
    state: Machine, files: Mapping[str, FileFact], output: str
) -> str | None:
    fact = files.get(output, FileFact())
    new = fact.since(state.visit.earlier)
    if new.valid:
        return None
    if new.found:
        return "is not valid JSON"
    return "is older than the phase" if fact.found else "is missing"


def _format_approval_request(
    root: Path, state: Machine, approval: str, output: str | None, options: str | None
) -> str:
    """Return the instruction to ask a person for an approval, or to repeat missing work."""
    ask = f"`wfctl machine approve {state.id} {approval}`"
    seen = collect_pattern_facts(root, [one for one in (output, options) if one is not None])
    lack = _explain_unusable_output(state, seen, output) if output is not None else None
    if output is not None and lack is None:
        return f"re-confirm with the person, because {output} exists: {ask}"
    designs = seen[options].since(state.visit.earlier).found if options is not None else ()
    if designs:
        listed = ", ".join(designs)
        return f"ask the person again to choose one of {listed}: {ask}; do not run the architects"
    return f"do the work of {state.phase} again: {output} {lack}"
