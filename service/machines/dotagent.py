"""Resuming phased development: what is validated first, and what each phase then asks for.

Source: the dotagent checkpoint protocol, its validation list, its resume table, its scenarios.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Any

from lifecycle.machines.guard import FileFact
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import MachineTaskChanged, MachineTransitioned
from lifecycle.machines.transition import open_ways
from lifecycle.payload_base import Payload
from projections.machines.dotagent import phase as phase_document
from projections.times import passed, utc_seconds
from service.machines.evidence import look

_WEEK = 7 * 86_400


@dataclass(slots=True)
class Resumption:
    """How a workflow is resumed: what was said, found, what to record, what to do next."""

    resumed: bool
    messages: list[str] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    commands: list[Payload] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)


def resumption(
    root: Path, state: Machine, files: Mapping[str, FileFact], now: str, on_disk: bytes | None
) -> Resumption:
    """Return how to resume; ``now`` is UTC in the log's form, ``on_disk`` is ``phase.json``."""
    if state.is_final:
        return Resumption(False, [f"{state.id} has ended: {state.phase}"])
    if not state.moves and state.visit.started_at is None and not state.tasks:
        return Resumption(False, [f"{state.id} has not begun: nothing to resume"])
    found = Resumption(True, _messages(state), list(_validated(root, state, now, on_disk)))
    _by_phase(root, state, files, found)
    return found


def _messages(state: Machine) -> list[str]:
    completed = [one["phase"] for one in phase_document(state)["completed_phases"]]
    return [
        f"Detected interrupted workflow: {state.id}",
        f"Resuming workflow {state.id} from {state.phase} phase",
        f"Last activity: {utc_seconds(state.updated)}",
        f"Completed: {', '.join(completed) or 'none'}",
    ]


def _validated(
    root: Path, state: Machine, now: str, on_disk: bytes | None
) -> Iterator[dict[str, Any]]:
    """Say what is wrong: outputs, times, the order of phases, a file that is not whole."""
    for done in phase_document(state)["completed_phases"]:
        if done["output"] and not _output(root, done["output"], is_pattern=True).found:
            yield _finding("output_missing", f"{done['phase']}: {done['output']} is not there")
    yield from _times(state, now)
    yield from _order(state)
    if on_disk is not None and not _is_whole(on_disk):
        yield _finding("not_whole", "phase.json was not whole; it is archived and written anew")


def _output(root: Path, named: Any, *, is_pattern: bool) -> FileFact:
    """Return what is there of an output; agents name it by its whole path too."""
    own = str(named or "").removeprefix(f"{root}/")
    own = own if is_pattern else escape(own)
    return look(root, [own])[own]


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
            f"`wfctl machine rehydrate {state.id} --start-fresh` archives it",
        )


def _order(state: Machine) -> Iterator[dict[str, Any]]:
    order = list(state.definition.phases)
    visited = [order.index(name) for name in state.visits if name in order]
    if visited != sorted(visited) or visited != list(range(len(visited))):
        names = ", ".join(order[index] for index in visited)
        yield _finding("phase_order", f"the phases were not taken in their order: {names}")


def _is_whole(content: bytes) -> bool:
    try:
        found = json.loads(content)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("interruption_safe") is True


def _by_phase(root: Path, state: Machine, files: Mapping[str, FileFact], found: Resumption) -> None:
    if state.definition.tasks is not None and state.tasks:
        _tasks(root, state, found)
    ways = open_ways(state, files)
    if len(ways) == 1:
        reason = "resumed: its output is there"
        found.commands.append(MachineTransitioned(to=ways[0].to, reason=reason))
        return
    phase = state.definition.phases[state.phase]
    waiting = state.definition.approval_in(state.phase)
    output = phase.output
    if waiting is not None and phase.person and waiting not in state.approvals:
        found.todo += _asked(root, state, waiting, output, phase.options)
    elif output is not None and not files.get(output, FileFact()).valid:
        found.todo.append(f"do the work of {state.phase} again: {output} is not there")
    elif not found.commands:
        found.todo.append(f"go on with {state.phase}: {phase.asks}")


def _asked(
    root: Path, state: Machine, approval: str, output: str | None, options: str | None
) -> list[str]:
    """At an approval point a person is asked again; what is there is not made again."""
    ask = f"`wfctl machine approve {state.id} {approval}`"
    if output is not None and look(root, [output])[output].valid:
        return [f"re-confirm with the person: {output} is there; {ask}"]
    designs = look(root, [options])[options].found if options is not None else ()
    if designs:
        listed = ", ".join(designs)
        return [f"ask the person again which of {listed} it is: {ask}; do not run the architects"]
    return [f"do the work of {state.phase} again: {output} is not there"]


def _tasks(root: Path, state: Machine, found: Resumption) -> None:
    """A running task has nobody who runs it: its output tells, else it is to be run again."""
    known = state.definition.tasks
    for task in state.tasks:
        if known is None or task.get("status") != known.running:
            continue
        id_ = str(task.get("id"))
        status = _status_of(root, task, known.statuses)
        if status is None:
            changes: dict[str, Any] = {"status": known.statuses[0]}
            reason = "interrupted: it was running and left no output"
        else:
            changes, reason = {"status": status}, "interrupted: its output says so"
        found.commands.append(MachineTaskChanged(task=id_, changes=changes, reason=reason))


def _status_of(root: Path, task: Mapping[str, Any], statuses: list[str]) -> str | None:
    """Return the status that a task's output says, ``pre_complete`` where it says none."""
    fact = _output(root, task.get("output"), is_pattern=False)
    if not fact.found:
        return None
    said = json.loads((root / fact.valid[0]).read_bytes()) if fact.valid else None
    status = said.get("status") if isinstance(said, dict) else None
    return status if status in statuses and status != "running" else "pre_complete"
