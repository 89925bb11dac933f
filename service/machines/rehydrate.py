"""Coming back to a machine: what is so, by its log and by the disk and git."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from lifecycle.machines.errors import UnsafeResume
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import MachineCancelled
from projections.machines.documents import paths
from service.machines import conductor, dotagent, evidence, git
from service.machines.inspection import differences
from service.machines.log import MachineLog
from service.machines.service import MachineOutcome, MachineService
from service.root.disk import utc_text
from service.root.root import Root
from service.root.safe_open import content_within
from service.writing.stream_writer import WriteOptions

#: Each round carries out what the one before it made due.
_ROUNDS = 20


def drift_of(root: Root, log: MachineLog, state: Machine) -> list[dict[str, Any]]:
    """Return what is not as the state says: its files, its artifacts, branches and worktrees."""
    files = [
        {"kind": f"file_{one.kind}", "file": one.file} for one in differences(root, log, state)
    ]
    kept = [{"kind": "hand_edit_kept", "file": d.file, "kept_as": d.kept_as} for d in state.drifts]
    return [
        *files,
        *kept,
        *evidence.drift_of(root.path, state),
        *git.drift_of(root.path, state),
    ]


def track_resumption(
    root: Root, state: Machine, resume_from: str | None, now: str
) -> dict[str, Any]:
    """Return where a conductor track goes on."""
    folder = PurePath(paths(state)["metadata"]).parent
    return conductor.resumption(state, root.path / folder / "plan.md", resume_from, now)


def resume_phases(
    service: MachineService, options: WriteOptions, *, go_on: bool = False
) -> tuple[dotagent.Resumption, list[MachineOutcome]]:
    """Resume phased development: validate, repair, and go on as far as the outputs lead.

    What is repaired is recorded, but for a dry run, which only says it. Raises `UnsafeResume`
    where what is there contradicts itself, unless a person said to ``go_on``.
    """
    # What executors wrote is taken over before anything is mended for want of it.
    state = service.files.look.foreseen().state
    on_disk = content_within(service.root.path, paths(state)["phase"])
    first = _look(service, state, on_disk)
    if first.unsafe and not (go_on or options.dry_run):
        raise UnsafeResume(state.id, first.unsafe)
    if options.dry_run:
        return first, []
    service.files.bring_up_to_date()
    found, done = _look(service, service.state(), None), list[MachineOutcome]()
    for _ in range(_ROUNDS):
        if not found.commands:
            break
        outcome = service.handle(*found.commands, options=options)
        options = replace(options, command_id=None)
        done.append(outcome)
        found = _look(service, outcome.state, None)
    first.todo = found.todo or found.messages[:1]
    first.commands = [p for outcome in done for p in outcome.planned]
    return first, done


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


def _look(service: MachineService, state: Machine, on_disk: bytes | None) -> dotagent.Resumption:
    now = utc_text(service.clock())
    return dotagent.resumption(service.root.path, state, service.evidence(state), now, on_disk)
