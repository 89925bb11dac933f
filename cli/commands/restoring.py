"""``wfctl import FILE``: a workflow that was handed over as an archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from cli.frame.workspace import Reading, create, settings_of
from cli.settings import Settings, actor_of
from cli.terminal.output import Output
from eventstore.codec import Schema
from eventstore.engine import open_log
from eventstore.instant import Clock
from eventstore.store import EventStore
from service.handover.carried import brought, put_in_place
from service.handover.contents import Archive, read_archive
from service.handover.manifest import Manifest
from service.handover.restore import restore
from service.machines.log import PREFIX, MachineLog
from service.machines.service import MachineService
from service.reading.log import WorkflowLog
from service.root.root import Config, Root
from service.writing.initialise import as_configured, refuse_second, root_at
from service.writing.workflow_service import Service


def restoring(context: typer.Context, file: Path, into: Path | None, dry_run: bool) -> None:
    """Make a root from an archive, every hash equal."""
    settings = settings_of(context)
    archive = read_archive(file)
    place = into or settings.start
    if not dry_run:
        place.mkdir(exist_ok=True)
    target = place if place.exists() else place.parent
    root = as_configured(root_at(target, settings.database_url, settings.journal))
    if dry_run:
        refuse_second(root)
        _tell(Output(settings), archive, None)
        return
    restore(root, archive, _connect)
    store = create(root)
    try:
        config = Config(archive.manifest.workflow, root.url, root.journal)
        log = WorkflowLog(store, config.stream, root.path)
        if config.workflow is not None:
            Service(root, log, actor_of(settings)).files.rebuild()
        _rebuild_machines(root, archive, store, settings)
        kept = put_in_place(root.path, archive.path, archive.manifest)
        _tell(Output(settings), archive, Reading(root, config, log, Output(settings)), kept)
    finally:
        store.close()


def _rebuild_machines(root: Root, archive: Archive, store: EventStore, settings: Settings) -> None:
    for stream in archive.manifest.streams:
        if stream.name.startswith(PREFIX):
            log = MachineLog(store, stream.name.removeprefix(PREFIX), root.path)
            MachineService(root, log, actor_of(settings)).files.rebuild()


def _connect(root: Root, schema: Schema, clock: Clock) -> EventStore:
    create(root).close()
    return open_log(root.address, schema=schema, clock=clock, journal=root.journal)


def _tell(output: Output, archive: Archive, made: Reading | None, kept: Sequence[str] = ()) -> None:
    manifest = archive.manifest
    data: dict[str, Any] = {
        "dry_run": made is None,
        "workflow": manifest.workflow,
        "source": str(archive.path),
        "root": str(made.root.path) if made is not None else None,
        "streams": [
            {"stream": s.name, "version": s.version, "head": s.head} for s in manifest.streams
        ],
        "files": brought(manifest),
        "kept": list(kept),
        "left_out": [asdict(one) for one in manifest.left_out],
    }
    state = made.log.state() if made is not None else None
    output.result(data, lambda: _text(manifest, made, kept), state=state)


def _text(manifest: Manifest, made: Reading | None, kept: Sequence[str]) -> str:
    verb = "would import" if made is None else "imported"
    lines = [
        f"{verb} {s.name}: {s.version} events, every hash as it was; head {s.head[:12]}"
        for s in manifest.streams
    ]
    lines.append(f"{verb} {len(brought(manifest))} of the workflow's own files")
    lines += [f"  another file is here, and stays: {path}" for path in kept]
    lines += [f"  not in the archive: {one.path}: {one.why}" for one in manifest.left_out]
    if made is not None:
        lines.append(
            "the next command that writes asks what this root is: --root-is moved, where the "
            "original is no more, or --root-is copied"
        )
    return "\n".join(lines)
