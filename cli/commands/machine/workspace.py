"""The composition root of the commands of machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from cli.commands.machine.output import MachineOutput
from cli.frame.workspace import create, moment, opened, require_checked, settings_of
from cli.settings import Settings, actor_of
from eventstore.store import EventStore
from lifecycle.machines.errors import StateNotFound
from lifecycle.machines.machine import Machine
from service.errors import NoRoot
from service.machines.log import MachineLog
from service.machines.service import MachineService
from service.root.root import Config, Root, open_root


@dataclass(frozen=True, slots=True)
class Machines:
    """An opened root, for commands that only look."""

    root: Root
    config: Config
    store: EventStore
    output: MachineOutput

    def log(self, machine: str) -> MachineLog:
        """Return the log of a machine."""
        return MachineLog(self.store, machine, self.root.path)

    def state(self, machine: str, at: str | None = None, known_at: str | None = None) -> Machine:
        """Return a machine now, or as it was; raises `StateNotFound`."""
        return self.log(machine).current(moment(at, known_at))


def _found(settings: Settings, machine: str | None) -> tuple[Root, Config]:
    try:
        return open_root(settings.start, settings.database_url, settings.journal)
    except NoRoot as error:
        if machine is None:
            raise
        raise StateNotFound(machine, []) from error


def is_nowhere(context: typer.Context) -> bool:
    """Whether there is no root here, nor above."""
    try:
        _found(settings_of(context), None)
    except NoRoot:
        return True
    return False


def output_of(context: typer.Context) -> MachineOutput:
    """Return what a command prints with."""
    return MachineOutput(settings_of(context))


@contextmanager
def looking(context: typer.Context, machine: str | None = None) -> Iterator[Machines]:
    """Open the root for reading: nothing is written, no lock is taken.

    Raises `NoRoot`, or `StateNotFound` where a machine is named.
    """
    settings = settings_of(context)
    root, config = _found(settings, machine)
    store = opened(root, read_only=True, as_is=settings.as_is)
    try:
        yield Machines(root, config, store, MachineOutput(settings))
    finally:
        store.close()


@contextmanager
def acting(
    context: typer.Context, machine: str, dry_run: bool, claim: str | None = None
) -> Iterator[tuple[MachineService, MachineOutput]]:
    """Open a machine for writing; for a dry run, as a command that only looks does.

    ``claim`` is the handle of the claim that the caller shows.
    Raises `StateNotFound`, `AnotherLog`, and `RootElsewhere` where the root is not where it was.
    """
    settings = settings_of(context)
    require_checked(settings)
    root, _ = _found(settings, machine)
    actor = actor_of(settings)
    store = opened(root, read_only=dry_run, strict=True)
    try:
        service = MachineService(root, MachineLog(store, machine, root.path), actor, claim=claim)
        if not dry_run:
            service.approvals.require_not_swapped()
            service.settle_place(settings.root_is)
        yield service, MachineOutput(settings)
    finally:
        store.close()


def connect(root: Root, is_there: bool, dry_run: bool) -> EventStore:
    """Open a root's log to begin a machine in; it is made where it is not there."""
    return opened(root, read_only=dry_run, strict=True) if is_there else create(root)
