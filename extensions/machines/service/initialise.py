"""Find or create the folder for a new machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from extensions.machines.rules.errors import StateAlreadyExists
from extensions.machines.rules.machine import Machine
from extensions.machines.service.foreign_changes import kept_name
from extensions.machines.service.log import MachineLog, find_rivals
from extensions.machines.service.service import MachineOutcome, MachineService
from extensions.machines.views.documents import render_files
from service.errors import NoRoot
from service.files.drift import keep_foreign_version
from service.root.atomic_files import hold_lock
from service.root.paths_within_root import content_within, open_parent_folder_within
from service.root.root import Root, open_root
from service.root.sync_record import Synced, digest, read_sync, write_sync
from service.writing.initialise import prepare_folder, root_at, write_configuration


def find_nearest_root(start: Path, url: str | None, journal: str | None) -> tuple[Root, bool]:
    """Return the nearest wfctl folder above ``start``, and whether it exists.

    If no workflow folder exists, a folder to be created at ``start`` is returned.
    """
    try:
        return open_root(start, url, journal)[0], True
    except NoRoot:
        return root_at(start, url, journal), False


def root_at_place(start: Path, url: str | None, journal: str | None) -> tuple[Root, bool]:
    """Return the wfctl folder at ``start`` itself, and whether it exists.

    Parent folders are not searched.
    """
    here = root_at(start, url, journal)
    is_there = here.folder.is_dir()
    return (open_root(start, url, journal)[0] if is_there else here), is_there


def create_root_config(root: Root) -> None:
    """Create the configuration of a folder that contains machines but no workflow."""
    prepare_folder(root)
    if not root.config_file.exists():
        write_configuration(root, None)


def pin_if_signed(service: MachineService, outcome: MachineOutcome) -> MachineOutcome:
    """Pin the first event of a new machine if its approvals need signatures.

    A pin is a record outside the folder. It reveals a replacement of the log.
    """
    if outcome.events and outcome.state.consent == "signature":
        service.log.approvals.pin(outcome.state)
    return outcome


def free_machine_files(
    service: MachineService, new: Machine, sources: Mapping[Path, bytes], dry_run: bool
) -> None:
    """Ensure that a new machine's files are free, and remove those of ended machines.

    ``sources`` are the files of an import; they are recorded but not changed. Raises
    `StateAlreadyExists` if an active machine uses the files, or if wfctl did not write them.
    """
    ended = False
    for rival in find_rivals(service.root, service.log.store, new):
        if not rival.is_final:
            raise StateAlreadyExists(
                new.id,
                (
                    f"the machine {rival.id} in the phase {rival.phase} uses the same files. "
                    f"Complete this machine, or run `wfctl machine cancel {rival.id}` to archive "
                    "and cancel it."
                ),
            )
        ended = True
        if not dry_run:
            _remove_ended_files(service, rival)
    taken = {path.resolve(): content for path, content in sources.items()}
    for path in render_files(new):
        target = service.root.below(path)
        if target.resolve() in taken:
            if not dry_run:
                # Record the imported file as the origin of the machine, and keep a copy of it.
                found = taken[target.resolve()]
                keep_foreign_version(service.root, kept_name(new, path), found)
                sync_file = service.files.sync_file
                sync_file.parent.mkdir(exist_ok=True)
                entry = Synced(service.log.stream, 0, len(found), digest(found))
                write_sync(sync_file, read_sync(sync_file).having(path, entry))
        elif content_within(service.root.path, path) is not None and not (dry_run and ended):
            raise StateAlreadyExists(
                new.id,
                (
                    f"the file {path} already exists, but wfctl did not write it. Import the file "
                    "with `wfctl machine import`, or move it to another folder."
                ),
            )


def _remove_ended_files(service: MachineService, ended: Machine) -> None:
    """Remove the state files of an ended machine. Copies of them are in its archive."""
    log = MachineLog(service.log.store, ended.id, service.root.path)
    former = MachineService(service.root, log, service.actor)
    former.files.bring_up_to_date()
    with hold_lock(service.root.lock):
        sync_file = former.files.sync_file
        sync = read_sync(sync_file)
        for path, left in sync.files.items():
            found = content_within(service.root.path, path)
            if found is not None and digest(found) == left.sha256:
                with open_parent_folder_within(service.root.path, path) as (folder, name):
                    os.unlink(name, dir_fd=folder)
        write_sync(sync_file, replace(sync, files={}))
