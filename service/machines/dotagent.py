"""Resuming phased development: what is validated first, and what each phase then asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lifecycle.machines.decide import open_ways
from lifecycle.machines.guard import FileFact, parts, path_of
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import MachineTaskChanged, MachineTransitioned
from lifecycle.payload.base import Payload
from projections.machines.documents import phase as phase_document
from projections.words.text import passed, utc_seconds
from service.machines.evidence import look, outputs_of, status_of_output
from service.machines.news import decoded

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
    #: When it is looked at (UTC).
    now: str = ""

    @property
    def unsafe(self) -> list[dict[str, Any]]:
        """The findings for which a person decides before anything is mended."""
        return [one for one in self.findings if one["check"] in _UNSAFE]


def resumption(
    root: Path, state: Machine, files: Mapping[str, FileFact], now: str, on_disk: bytes | None
) -> Resumption:
    """Return how to resume; ``now`` is UTC in the log's form, ``on_disk`` is ``phase.json``."""
    if state.is_final:
        return Resumption(False, [f"{state.id} has ended: {state.phase}"])
    if not state.moves and state.visit.started_at is None and not state.tasks:
        return Resumption(False, [f"{state.id} has not begun: nothing to resume"])
    found = Resumption(True, _messages(state), list(_validated(root, state, now, on_disk)), now=now)
    _by_phase(root, state, files, found)
    return found


def _messages(state: Machine) -> list[str]:
    completed = [one["phase"] for one in phase_document(state)["completed_phases"]]
    return [
        f"Detected interrupted workflow: {state.id}",
        f"Resuming workflow {state.id} from {state.phase} phase",
        f"Last activity: {utc_seconds(_last_activity(state))}",
        f"Completed: {', '.join(completed) or 'none'}",
    ]


def _last_activity(state: Machine) -> str:
    """Return when anything was done last: of what was just taken over, when its file says."""
    return (state.visit.updated_at if state.head == 1 else None) or state.updated


def _validated(
    root: Path, state: Machine, now: str, on_disk: bytes | None
) -> Iterator[dict[str, Any]]:
    for done in phase_document(state)["completed_phases"]:
        pattern = str(done["output"] or "").removeprefix(f"{root}/")
        if pattern and not look(root, [pattern])[pattern].found:
            yield _finding("output_missing", f"{done['phase']}: {done['output']} is not there")
    yield from _times(state, now)
    order = list(state.definition.phases)
    visited = [order.index(name) for name in state.visits if name in order]
    if visited != sorted(visited) or visited != list(range(len(visited))):
        names = ", ".join(order[index] for index in visited)
        yield _finding("phase_order", f"the phases were not taken in their order: {names}")
    yield from _file(on_disk)


def _file(on_disk: bytes | None) -> Iterator[dict[str, Any]]:
    if on_disk is None:
        return
    document = decoded(on_disk)
    if document is None:
        yield _finding("not_whole", "phase.json was not whole; it is archived and written anew")
    elif document.get("interruption_safe") is not True:
        found = json.dumps(document.get("interruption_safe"))
        message = f"phase.json says interruption_safe: {found}; expected true"
        yield _finding("interruption_unsafe", message)


def _finding(check: str, message: str) -> dict[str, Any]:
    return {"check": check, "message": message}


def _times(state: Machine, now: str) -> Iterator[dict[str, Any]]:
    began = passed(state.created, now)
    if state.updated > now or (began is not None and began < 0):
        yield _finding("time_in_future", f"the state is of {utc_seconds(state.updated)}: later")
    elif began is not None and began > _WEEK:
        days = int(began // 86_400)
        yield _finding(
            "old_state",
            f"the workflow began {days} days ago and may be out of date; go on with caution, or "
            f"`wfctl machine rehydrate {state.id} --start-fresh` archives it and begins anew",
        )


def _by_phase(root: Path, state: Machine, files: Mapping[str, FileFact], found: Resumption) -> None:
    if state.definition.tasks is not None and state.tasks:
        _tasks(root, state, found)
    ways = open_ways(state, files)
    if not _has_begun(state):
        found.todo.append(
            f"begin {state.phase} (`wfctl machine append {state.id} phase.started`): "
            f"{state.definition.phases[state.phase].asks}"
        )
        return
    if len(ways) == 1:
        reason = "resumed: its output is there"
        found.commands.append(MachineTransitioned(to=ways[0].to, reason=reason))
        return
    phase = state.definition.phases[state.phase]
    waiting = state.definition.approval_in(state.phase)
    output = phase.output
    if waiting is not None and phase.person and waiting not in state.approvals:
        found.todo += _asked(root, state, waiting, output, phase.options)
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
    statuses = state.definition.statuses
    is_initial = statuses is None or state.status == statuses.initial
    at_work = any(task.get("started_at") for task in state.tasks)
    of_tasks = state.definition.tasks is not None and _is_of_tasks(state) and at_work
    return not is_initial or bool(state.approvals) or of_tasks


def _is_of_tasks(state: Machine) -> bool:
    path = state.definition.tasks.path if state.definition.tasks is not None else None
    ways = state.definition.ways(state.phase)
    return any(path_of(part) == path for way in ways for part in parts(way.guard))


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
) -> list[str]:
    """At an approval point a person is asked again; what is there is not made again."""
    ask = f"`wfctl machine approve {state.id} {approval}`"
    seen = look(root, [one for one in (output, options) if one is not None])
    lack = _lack_of(state, seen, output) if output is not None else None
    if output is not None and lack is None:
        return [f"re-confirm with the person: {output} is there; {ask}"]
    designs = seen[options].since(state.visit.earlier).found if options is not None else ()
    if designs:
        listed = ", ".join(designs)
        return [f"ask the person again which of {listed} it is: {ask}; do not run the architects"]
    return [f"do the work of {state.phase} again: {output} {lack}"]


def _tasks(root: Path, state: Machine, found: Resumption) -> None:
    """A running task has nobody who runs it: its output tells, else it is to be run again."""
    known = state.definition.tasks
    for task in state.tasks:
        if known is None or task.get("status") != known.running:
            continue
        id_ = str(task.get("id"))
        if not known.is_id(id_):
            message = f"a task is running whose id {id_!r:.80} is not of the form {known.pattern}"
            found.findings.append(_finding("task_unnamed", message))
            continue
        held = state.leases.get(id_)
        if held is not None and held.is_live(found.now):
            message = f"{id_} is claimed by {held.by} until {held.until}: it is left as it is"
            found.findings.append(_finding("task_claimed", message))
            continue
        fact = outputs_of(root, state.definition, task, state.task_earlier.get(id_, {}))
        status = status_of_output(root, fact, known.statuses)
        if status is None and fact.found:
            message = f"{id_}: {fact.found[0]} was not written to its end; it does not count"
            found.findings.append(_finding("output_torn", message))
        if status is None:
            changes: dict[str, Any] = {"status": known.statuses[0]}
            reason = "interrupted: it was running and left no output"
        else:
            changes, reason = {"status": status}, "interrupted: its output says so"
        found.commands.append(MachineTaskChanged(task=id_, changes=changes, reason=reason))
