"""Coming back to a machine: what is so, by its log, the disk and git, and where it goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from eventstore.private import read_regular
from lifecycle.machines.decide import open_ways
from lifecycle.machines.errors import InvalidInput, UnsafeResume
from lifecycle.machines.guard import FileFact, parts, path_of
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import MachineCancelled, MachineTaskChanged, MachineTransitioned
from lifecycle.payload.base import Payload
from projections.machines.documents import paths
from projections.machines.documents import phase as phase_document
from projections.words.text import passed, utc_seconds
from service.machines import evidence
from service.machines.evidence import look, outputs_of, status_of_output
from service.machines.inspection import differences
from service.machines.log import MachineLog
from service.machines.news import decoded
from service.machines.service import MachineOutcome, MachineService
from service.root.disk import content_within, utc_text
from service.root.root import Root
from service.writing.stream_writer import WriteOptions

#: Each round carries out what the one before it made due.
_ROUNDS = 20


def drift_of(root: Root, log: MachineLog, state: Machine) -> list[dict[str, Any]]:
    """Return what is not as the state says: its files, its artifacts, branches and worktrees."""
    files = [
        {"kind": f"file_{one.kind}", "file": one.file} for one in differences(root, log, state)
    ]
    kept = [{"kind": "hand_edit_kept", "file": d.file, "kept_as": d.kept_as} for d in state.drifts]
    return [*files, *kept, *evidence.drift_of(root.path, state)]


def start_fresh(
    service: MachineService, options: WriteOptions, say: Callable[[str], None]
) -> tuple[MachineOutcome, str | None]:
    """Archive a machine as it is, then begin it anew; ``say`` is told before anything is done.

    One whose protocol has no archive is given up for good. Returns where it was archived, relative
    to the root, if it was.
    """
    at = utc_text(service.clock())
    state = service.files.look.foreseen().state
    where = service.files.archive_place(state, at)
    command = MachineCancelled(reason="declined to resume", anew=where is not None)
    first = service.first_answer(options, command)
    if first is not None:
        return first, None
    if not (state.is_final or options.dry_run):
        status = f", {state.status}" if state.status is not None else ""
        kept = f"archived as it is in {where}, and begins anew" if where is not None else "given up"
        say(f"{state.id} (in {state.phase}{status}) is {kept}")
        service.files.bring_up_to_date()
        service.files.archive_as_it_is(service.state(), at)
    return service.handle(command, options=replace(options, occurred_at=at)), where


# A conductor track goes on after its last task; ``plan.md`` is compared with the log.

_MARKER = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+\[([ xX~])\]\s+(?:\*\*)?(.*)$")
#: A heading that is a task, perhaps with its marker; else a line below it says how it stands.
_HEADING = re.compile(r"^#{2,6}\s+(?:\[([ xX~])\]\s+)?(?:\*\*)?(Task\b.*)$", re.IGNORECASE)
_STATUS = re.compile(r"^\s*(?:[-*+]\s+)?\*\*Status:?\*\*:?\s*\[([ xX~])\]", re.IGNORECASE)
_ID = re.compile(r"(?:task\s+)?([A-Za-z]*-?\d+(?:[.\-]\d+)*)", re.IGNORECASE)


class _PlannedTask(NamedTuple):
    """A task of ``plan.md``; ``line`` counts from 1."""

    id: str
    done: bool
    line: int

    def is_named(self, other: str | None) -> bool:
        """Whether another spelling names it too: ``Task 2.1``, ``2.1``, ``task-2.1``."""
        return other is not None and _bare(self.id) == _bare(other)


def _bare(id_: str) -> str:
    return re.sub(r"^task[\s_-]*", "", id_.strip().lower())


def _tasks_of(plan: Path) -> list[_PlannedTask]:
    """Return the tasks of a plan in their order, an empty list if there is no plan."""
    if not plan.is_file():
        return []
    lines = read_regular(plan).decode(errors="replace").splitlines()
    listed = ((number, _MARKER.match(line)) for number, line in enumerate(lines, 1))
    # If tasks are headings, the items of lists below them are their steps.
    said = list(_headed(lines)) or [(n, one[1], one[2]) for n, one in listed if one is not None]
    names = [_ID.match(text.strip()) for _, _, text in said]
    return [
        _PlannedTask(name[1] if name is not None else str(number), marker in "xX", line)
        for number, (name, (line, marker, _)) in enumerate(zip(names, said, strict=True), 1)
    ]


def _headed(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the tasks that are headings: the line, the marker, the text."""
    waiting: str | None = None
    for number, line in enumerate(lines, 1):
        heading, status = _HEADING.match(line), _STATUS.match(line)
        if line.startswith("#"):
            waiting = heading[2] if heading is not None and heading[1] is None else None
        if heading is not None and heading[1] is not None:
            yield number, heading[1], heading[2]
        elif waiting is not None and status is not None:
            yield number, status[1], waiting
            waiting = None


def track_resumption(
    root: Root, state: Machine, resume_from: str | None, now: str
) -> dict[str, Any]:
    """Return where a conductor track goes on: step, task, and what does not agree.

    Raises `InvalidInput` if the plan has no task ``resume_from``.
    """
    folder = PurePath(paths(state)["metadata"]).parent
    tasks = _tasks_of(root.path / folder / "plan.md")
    known = [task.id for task in tasks]
    if resume_from is not None and tasks and not any(one.is_named(resume_from) for one in tasks):
        raise InvalidInput(
            f"--resume-from {resume_from}: expected a task of plan.md, which has: "
            f"{', '.join(known)}",
            task=resume_from,
            known=known,
        )
    visit = state.visits.get("EXECUTE")
    last = str(visit.data["last_task"]) if visit and visit.data.get("last_task") else None
    point, why = _point(tasks, last, resume_from)
    return {
        "step": state.working_phase,
        "status": state.status,
        "agent": state.definition.phases[state.working_phase].agent,
        "last_task": last,
        "next_task": point,
        "why": why,
        "stale": _stale(state, now),
        "differences": list(_differences(tasks, last)),
    }


def _point(
    tasks: list[_PlannedTask], last: str | None, resume_from: str | None
) -> tuple[str | None, str]:
    """Return the task to begin with: after a completed one, else the one that is named."""
    open_ = [task.id for task in tasks if not task.done]
    wanted = resume_from if resume_from is not None else last
    if wanted is None:
        return next(iter(open_), None), "nothing was done yet: the first open task"
    is_last = last is not None and _bare(wanted) == _bare(last)
    if not is_last and not any(task.done and task.is_named(wanted) for task in tasks):
        return wanted, f"{wanted} is not completed: begin with it"
    place = next((n for n, task in enumerate(tasks) if task.is_named(wanted)), None)
    if place is None:
        return None, f"{wanted} is completed, and the plan does not name it: continue after it"
    after = (task.id for task in tasks[place + 1 :] if not task.done)
    return next(after, None), f"{wanted} is completed: continue after it"


def _differences(tasks: list[_PlannedTask], last: str | None) -> Iterator[dict[str, Any]]:
    place = next((n for n, task in enumerate(tasks) if task.is_named(last)), -1)
    if last is not None and tasks and place < 0:
        yield {"task": last, "line": None, "why": "the log's last task is not in the plan"}
    for number, task in enumerate(tasks):
        if task.done != (number <= place):
            why = "done in the plan, not yet by" if task.done else "open in the plan, done by"
            yield {"task": task.id, "line": task.line, "why": f"{why} the log"}


def _stale(state: Machine, now: str) -> str | None:
    due = state.definition.phases[state.phase].due_seconds if not state.is_final else None
    if due is None or state.status != "IN_PROGRESS":
        return None
    late = passed(state.visit.updated_at or state.visit.entered_at, now)
    if late is None or late <= due:
        return None
    heard = f"it was last heard of {int(late // 60)} min ago"
    return f"{state.phase} is to report every {due // 60} min; {heard}"


# Phased development is validated first, and goes on as far as the outputs lead.

_WEEK = 7 * 86_400
#: Findings with which nothing is resumed before a person has decided.
_UNSAFE = frozenset({"output_missing", "phase_order", "interruption_unsafe"})


@dataclass(slots=True)
class Resumption:
    """How a workflow is resumed: what was said, found, what to record, what to do next."""

    resumed: bool
    messages: list[str] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    commands: list[Payload] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)

    def say(self, check: str, message: str) -> None:
        """Add what a check found."""
        self.findings.append({"check": check, "message": message})


def resume_phases(
    service: MachineService, options: WriteOptions, *, go_on: bool = False
) -> tuple[Resumption, list[MachineOutcome]]:
    """Resume phased development: validate, repair, and go on as far as the outputs lead.

    What is repaired is recorded, but for a dry run, which only says it. Raises `UnsafeResume`
    if what is there contradicts itself, unless a person said to ``go_on``.
    """
    # What executors wrote is taken over before anything is mended for want of it.
    state = service.files.look.foreseen().state
    on_disk = content_within(service.root.path, paths(state)["phase"])
    first = _resumption(service, state, on_disk)
    unsafe = [one for one in first.findings if one["check"] in _UNSAFE]
    if unsafe and not (go_on or options.dry_run):
        raise UnsafeResume(state.id, unsafe)
    if options.dry_run:
        return first, []
    service.files.bring_up_to_date()
    found, done = _resumption(service, service.state(), None), list[MachineOutcome]()
    for _ in range(_ROUNDS):
        if not found.commands:
            break
        outcome = service.handle(*found.commands, options=options)
        options = replace(options, command_id=None)
        done.append(outcome)
        found = _resumption(service, outcome.state, None)
    first.todo = found.todo or found.messages[:1]
    first.commands = [p for outcome in done for p in outcome.planned]
    return first, done


def _resumption(service: MachineService, state: Machine, on_disk: bytes | None) -> Resumption:
    """Return how to resume; ``on_disk`` is ``phase.json``."""
    root, now, files = service.root.path, utc_text(service.clock()), service.evidence(state)
    if state.is_final:
        return Resumption(False, [f"{state.id} has ended: {state.phase}"])
    if not state.moves and state.visit.started_at is None and not state.tasks:
        return Resumption(False, [f"{state.id} has not begun: nothing to resume"])
    # Of what was just taken over its file says when anything was done last.
    last = (state.visit.updated_at if state.head == 1 else None) or state.updated
    completed = [one["phase"] for one in phase_document(state)["completed_phases"]]
    messages = [
        f"Detected interrupted workflow: {state.id}",
        f"Resuming workflow {state.id} from {state.phase} phase",
        f"Last activity: {utc_seconds(last)}",
        f"Completed: {', '.join(completed) or 'none'}",
    ]
    found = Resumption(True, messages)
    _validate(root, state, now, on_disk, found)
    if state.definition.tasks is not None and state.tasks:
        _mend_tasks(root, state, now, found)
    _go_on(root, state, files, found)
    return found


def _validate(
    root: Path, state: Machine, now: str, on_disk: bytes | None, found: Resumption
) -> None:
    for done in phase_document(state)["completed_phases"]:
        pattern = str(done["output"] or "").removeprefix(f"{root}/")
        if pattern and not look(root, [pattern])[pattern].found:
            found.say("output_missing", f"{done['phase']}: {done['output']} is not there")
    began = passed(state.created, now)
    if state.updated > now or (began is not None and began < 0):
        found.say("time_in_future", f"the state is of {utc_seconds(state.updated)}: later")
    elif began is not None and began > _WEEK:
        found.say(
            "old_state",
            f"the workflow began {int(began // 86_400)} days ago and may be out of date; go on "
            f"with caution, or `wfctl machine rehydrate {state.id} --start-fresh` archives it and "
            "begins anew",
        )
    order = list(state.definition.phases)
    visited = [order.index(name) for name in state.visits if name in order]
    if visited != list(range(len(visited))):
        names = ", ".join(order[index] for index in visited)
        found.say("phase_order", f"the phases were not taken in their order: {names}")
    document = decoded(on_disk)
    if on_disk is not None and document is None:
        found.say("not_whole", "phase.json was not whole; it is archived and written anew")
    elif document is not None and document.get("interruption_safe") is not True:
        said = json.dumps(document.get("interruption_safe"))
        found.say(
            "interruption_unsafe", f"phase.json says interruption_safe: {said}; expected true"
        )


def _mend_tasks(root: Path, state: Machine, now: str, found: Resumption) -> None:
    """A running task has nobody who runs it: its output tells, else it is to be run again."""
    known = state.definition.tasks
    for task in state.tasks:
        if known is None or task.get("status") != known.running:
            continue
        id_ = str(task.get("id"))
        if not known.is_id(id_):
            message = f"a task is running whose id {id_!r:.80} is not of the form {known.pattern}"
            found.say("task_unnamed", message)
            continue
        held = state.leases.get(id_)
        if held is not None and held.is_live(now):
            message = f"{id_} is claimed by {held.by} until {held.until}: it is left as it is"
            found.say("task_claimed", message)
            continue
        fact = outputs_of(root, state.definition, task, state.task_earlier.get(id_, {}))
        status = status_of_output(root, fact, known.statuses)
        reason = "interrupted: its output says so"
        if status is None:
            status, reason = known.statuses[0], "interrupted: it was running and left no output"
            if fact.found:
                torn = f"{id_}: {fact.found[0]} was not written to its end; it does not count"
                found.say("output_torn", torn)
        changes: dict[str, Any] = {"status": status}
        found.commands.append(MachineTaskChanged(task=id_, changes=changes, reason=reason))


def _go_on(root: Path, state: Machine, files: Mapping[str, FileFact], found: Resumption) -> None:
    ways = open_ways(state, files)
    phase = state.definition.phases[state.phase]
    waiting, output = state.definition.approval_in(state.phase), phase.output
    if not _has_begun(state):
        begin = f"`wfctl machine append {state.id} phase.started`"
        found.todo.append(f"begin {state.phase} ({begin}): {phase.asks}")
    elif len(ways) == 1:
        reason = "resumed: its output is there"
        found.commands.append(MachineTransitioned(to=ways[0].to, reason=reason))
    elif waiting is not None and phase.person and waiting not in state.approvals:
        found.todo.append(_asked(root, state, waiting, output, phase.options))
    elif output is not None and (lack := _lack_of(state, files, output)) is not None:
        chosen = state.given[-1].choice if waiting in state.approvals and state.given else None
        found.todo.append(
            f"go on to the roundtable with {chosen}, which a person chose: {output} {lack}"
            if chosen is not None
            else f"do the work of {state.phase} again: {output} {lack}"
        )
    elif not found.commands:
        found.todo.append(f"go on with {state.phase}: {phase.asks}")


def _has_begun(state: Machine) -> bool:
    statuses, tasks = state.definition.statuses, state.definition.tasks
    if state.approvals or not (statuses is None or state.status == statuses.initial):
        return True
    guards = [part for way in state.definition.ways(state.phase) for part in parts(way.guard)]
    is_of_tasks = tasks is not None and any(path_of(part) == tasks.path for part in guards)
    return is_of_tasks and any(task.get("started_at") for task in state.tasks)


def _lack_of(state: Machine, files: Mapping[str, FileFact], output: str) -> str | None:
    fact = files.get(output, FileFact())
    new = fact.since(state.visit.earlier)
    if new.valid:
        return None
    if new.found:
        return "is there and is not valid JSON"
    return "is there only as it was before the phase began" if fact.found else "is not there"


def _asked(
    root: Path, state: Machine, approval: str, output: str | None, options: str | None
) -> str:
    """At an approval point a person is asked again; what is there is not made again."""
    ask = f"`wfctl machine approve {state.id} {approval}`"
    seen = look(root, [one for one in (output, options) if one is not None])
    lack = _lack_of(state, seen, output) if output is not None else None
    if output is not None and lack is None:
        return f"re-confirm with the person: {output} is there; {ask}"
    designs = seen[options].since(state.visit.earlier).found if options is not None else ()
    if designs:
        listed = ", ".join(designs)
        return f"ask the person again which of {listed} it is: {ask}; do not run the architects"
    return f"do the work of {state.phase} again: {output} {lack}"
