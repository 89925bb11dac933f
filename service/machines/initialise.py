"""Where machines live: a root, created if needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lifecycle.machines.errors import StateAlreadyExists
from lifecycle.machines.machine import Machine
from projections.machines.documents import rendered
from service.errors import NoRoot
from service.files.drift import keep
from service.machines.log import MachineLog, rivals
from service.machines.news import kept_name
from service.machines.service import MachineOutcome, MachineService
from service.root.disk import content_within, folder_within, locked
from service.root.root import Root, Synced, digest, open_root, read_sync, write_sync
from service.writing.initialise import configure, prepare_folder, root_at


def root_for(start: Path, url: str | None, journal: str | None) -> tuple[Root, bool]:
    """Return the nearest root, else one to be made at ``start``; and whether it is there."""
    try:
        return open_root(start, url, journal)[0], True
    except NoRoot:
        return root_at(start, url, journal), False


def root_at_place(start: Path, url: str | None, journal: str | None) -> tuple[Root, bool]:
    """Return the root whose files those of a protocol below ``start`` are: no other one upwards."""
    here = root_at(start, url, journal)
    is_there = here.folder.is_dir()
    return (open_root(start, url, journal)[0] if is_there else here), is_there


def make_root(root: Root) -> None:
    """Make the folder and the configuration of a root that has no staged workflow."""
    prepare_folder(root)
    if not root.config_file.exists():
        configure(root, None)


def begin(service: MachineService, outcome: MachineOutcome) -> MachineOutcome:
    """Pin a machine whose consent is by signature, as its first event stands now."""
    if outcome.events and outcome.state.consent == "signature":
        service.log.approvals.pin(outcome.state)
    return outcome


def make_way(
    service: MachineService, new: Machine, sources: Mapping[Path, bytes], dry_run: bool
) -> None:
    """See that the new machine's files are nobody's: those of one that ended are taken away.

    ``sources`` are files that it is begun from, as they were read: they are kept as that.

    Raises `StateAlreadyExists` where another machine works with them, or somebody keeps them by
    hand.
    """
    ended = False
    for rival in rivals(service.root, service.log.store, new):
        if not rival.is_final:
            raise StateAlreadyExists(
                new.id,
                f"{rival.id} is at work with the same files, in phase {rival.phase}; finish it, "
                f"or `wfctl machine cancel {rival.id}` archives it and gives it up.",
            )
        ended = True
        if not dry_run:
            _take_away(service, rival)
    taken = {path.resolve(): content for path, content in sources.items()}
    for path in rendered(new):
        target = service.root.below(path)
        if target.resolve() in taken:
            if not dry_run:
                # It is remembered as what the machine is begun from.
                found = taken[target.resolve()]
                keep(service.root, kept_name(new, path), found)
                sync_file = service.files.sync_file
                sync_file.parent.mkdir(exist_ok=True)
                entry = Synced(service.log.stream, 0, len(found), digest(found))
                write_sync(sync_file, read_sync(sync_file).having(path, entry))
        elif content_within(service.root.path, path) is not None and not (dry_run and ended):
            raise StateAlreadyExists(
                new.id,
                f"{path} is there already, and no machine wrote it; `wfctl machine import` takes "
                "it over, or move it away.",
            )


def _take_away(service: MachineService, ended: Machine) -> None:
    """Remove the files of a machine that ended; its archive keeps them."""
    log = MachineLog(service.log.store, ended.id, service.root.path)
    former = MachineService(service.root, log, service.actor)
    former.files.bring_up_to_date()
    with locked(service.root.lock):
        sync_file = former.files.sync_file
        sync = read_sync(sync_file)
        for path, left in sync.files.items():
            found = content_within(service.root.path, path)
            if found is not None and digest(found) == left.sha256:
                with folder_within(service.root.path, path) as (folder, name):
                    os.unlink(name, dir_fd=folder)
        write_sync(sync_file, replace(sync, files={}))
