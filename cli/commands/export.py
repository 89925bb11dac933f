"""``wfctl export``: the workflow in formats that other people and tools read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.options import AsOf, File, Text, argument, option
from cli.frame.workspace import Reading, reading
from cli.settings import Format
from cli.terminal.output import harmless, say
from lifecycle.state.workflow import Workflow
from projections.exports.formats import FORMATS, ExportFormat, ExportSource
from projections.files import progress_log, state_document
from reconciler.errors import MissingInput
from reconciler.files.freshness import look
from service.errors import InvalidOption
from service.reading.moment import Moment
from service.root.disk import OutsideRoot, content_within, write_streamed
from service.writing.workflow_service import report as made
from service.writing.workflow_service import write_to

if TYPE_CHECKING:
    from service.handover.archive import Shown
    from service.handover.carried import Choice


def export(
    context: typer.Context,
    format_: Annotated[ExportFormat, argument("FORMAT", " ".join(ExportFormat))],
    file: File = argument("[FILE]", "File to write (default, or -: stdout)."),
    view: AsOf = None,
    license_: Text = option("--license", "URI|TEXT", "License of an RO-Crate."),
    with_: Text = option(
        "--with", "KIND,...", "Contents of an archive: inputs, outputs, figures, scripts, or none."
    ),
    machine: Text = option("ID", "Export a phase machine, as mermaid or report."),
) -> None:
    """Export the workflow in another format."""
    with reading(context) as workflow:
        if machine is not None:
            options = {"--license": license_, "--with": with_}
            given = [name for name, value in options.items() if value is not None]
            _of_machine(workflow, machine, format_, file, view, given)
            return
        if format_ is ExportFormat.ARCHIVE:
            _archive(workflow, file, view, license_, with_)
            return
        if with_ is not None:
            raise InvalidOption("--with goes with `wfctl export archive FILE`")
        source = replace(_source_of(workflow, view, format_), license=license_)
        _put(workflow, format_, file, _chunks(format_.value, source), workflow.state)


def _of_machine(
    root: Reading,
    machine: str,
    format_: ExportFormat,
    file: Path | None,
    when: Moment | None,
    given: list[str],
) -> None:
    """Write the diagram of a machine with its present phase, or its report.

    Raises `StateNotFound`.
    """
    from cli.commands.events import of_machine

    if format_ not in (ExportFormat.MERMAID, ExportFormat.REPORT) or given:
        found = " ".join([format_.value, *given])
        raise InvalidOption(
            f"expected `wfctl export mermaid --machine {machine}` or `export report`, found "
            f"{found}; `wfctl events` and `log` with --machine {machine} have its history"
        )
    log = root.machine(machine)
    state = log.current(when)
    if format_ is ExportFormat.REPORT:
        from projections.exports.report import machine_page as page

        chunks = page(log.steps(upto=when))
    else:
        from projections.machines.description import drawn

        chunks = iter([drawn(state)])
    _put(of_machine(root, machine), format_, file, _encoded(chunks))


def _source_of(workflow: Reading, when: Moment | None, format_: ExportFormat) -> ExportSource:
    """Return what an export is made from; raises `InvalidOption` for a time of a chain.

    It ends where the log ends now: what is appended while it is read again is not in it.
    """
    log = workflow.log
    upto = log.resolved(when)
    if upto.version is None:
        upto = replace(upto, version=_head(workflow))
    if (upto.so_by or upto.known_by) and FORMATS[format_.value].chained:
        raise InvalidOption(
            f"expected a version with `export {format_.value} --at`, found a time ({upto}): "
            "a chain is cut at a version; `wfctl events --until TIME` finds it",
            value=str(upto),
        )
    log.current(upto)  # what is not there is told before anything is written
    return ExportSource(
        lambda: log.steps(upto=upto),
        lambda: islice(log.store.raw(log.stream), upto.version),
        lambda: log.current(upto),
        content=partial(_as_recorded, workflow.root.path),
    )


def _as_recorded(root: Path, one: Mapping[str, Any]) -> bytes | None:
    try:
        content = content_within(root, str(one["path"]), int(one["size"]))
    except (OSError, OutsideRoot, KeyError, ValueError):
        return None
    same = content is not None and sha256(content).hexdigest() == one.get("sha256")
    return content if same else None


def _head(workflow: Reading) -> int:
    head = workflow.log.store.head(workflow.log.stream)
    return head.version if head is not None else 0


def _archive(
    workflow: Reading,
    file: Path | None,
    when: Moment | None,
    license_: str | None,
    with_: str | None,
) -> None:
    from service.handover.archive import write_archive

    if file is None or str(file) == "-" or when is not None:
        raise InvalidOption(
            "expected `wfctl export archive FILE`, without --at: it is one file, and holds all"
        )
    head = _head(workflow)
    shown = _shown(workflow, head, license_) if head else {}
    taken = _taken(workflow, head, with_)
    manifest = write_archive(_target(file), workflow.root, workflow.log, shown, head, taken)
    data = {"format": "archive", "file": str(file), "bytes": file.stat().st_size}
    data |= {"taken": taken.files, "left_out": [asdict(one) for one in taken.left]}
    data |= {"streams": [asdict(stream) for stream in manifest.streams]}
    size = sum(taken.files.values())
    whose = manifest.workflow or f"{len(manifest.streams)} machines"
    lines = [
        f"{file}: archive of {whose}, {len(manifest.files)} files",
        f"  of the workflow's own: {len(taken.files)} ({size:,} bytes)",
        *(f"  left out: {o.path} ({o.bytes:,} bytes): {o.why}" for o in taken.left),
    ]
    workflow.output.result(data, lambda: "\n".join(lines), state=workflow.log.state())


def _taken(workflow: Reading, head: int, with_: str | None) -> Choice:
    from reconciler.attempt.markers import digests
    from service.handover.carried import KINDS, MOST_BYTES, Choice, chosen
    from service.machines.log import MachineLog, ids

    if with_ == "none":
        return Choice()
    kinds = with_.split(",") if with_ is not None else KINDS
    if unknown := [one for one in kinds if one not in KINDS]:
        raise InvalidOption(
            f"--with: expected none, or some of {', '.join(KINDS)}; found {unknown}"
        )
    root, store = workflow.root, workflow.log.store

    def digest(path: str) -> str | None:
        try:
            return digests(root.path, [path])[0].sha256
        except (MissingInput, OSError, ValueError):
            return None

    state = workflow.log.current(Moment(version=head)) if head else None
    machines = (MachineLog(store, one, root.path).state() for one in ids(root, store))
    known = [one for one in machines if one is not None]
    most = MOST_BYTES if with_ is None else None
    return chosen(root.path, state, known, kinds, digest, most)


def _shown(workflow: Reading, head: int, license_: str | None) -> Shown:
    """Return what shows the log; its checkpoint too, unless this login can sign none."""
    from cli.frame.checkpoints import signed_now
    from projections.exports import ro_crate
    from service.proofs.note import CheckpointDenied

    version = Moment(version=head)
    source = replace(_source_of(workflow, version, ExportFormat.REPORT), license=license_)
    shown = {
        state_document.FILE_NAME: "state",
        progress_log.FILE_NAME: "log",
        "report.html": "report",
        ro_crate.FILE: "ro-crate",
    }
    every: Shown = {name: partial(_chunks, format_, source) for name, format_ in shown.items()}
    try:
        note = signed_now(workflow, workflow.log.stream, head).note
    except (CheckpointDenied, OSError) as error:
        say(f"wfctl: no checkpoint goes with the archive: {error}")
        return every
    return {**every, "log.checkpoint": lambda: [str(note).encode()]}


def _chunks(format_: str, source: ExportSource) -> Iterator[bytes]:
    return _encoded(FORMATS[format_].chunks(source))


def _encoded(chunks: Iterable[str]) -> Iterator[bytes]:
    return (chunk.encode("utf-8", "surrogateescape") for chunk in chunks)


def _target(file: Path) -> Path:
    """Return the file that is to be replaced: what a link leads to, and never a device."""
    if file.exists() and not file.is_file():
        raise InvalidOption(f"{file}: expected a file to write, found none; - is stdout")
    return file.resolve()


def _put(
    reader: Reading,
    format_: ExportFormat,
    file: Path | None,
    chunks: Iterable[bytes],
    state: Callable[[], Workflow | None] = lambda: None,
) -> None:
    if file is None or str(file) == "-":
        if reader.output.settings.format is Format.JSON:
            raise InvalidOption(
                "expected a FILE with -o json: stdout holds one JSON envelope, and not the export "
                "too"
            )
        sys.stdout.flush()
        for chunk in chunks:
            safe = reader.output.is_terminal
            told = harmless(chunk.decode("utf-8", "replace")).encode() if safe else chunk
            sys.stdout.buffer.write(told)
        return
    digest, size = sha256(), 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
            yield chunk

    write_streamed(_target(file), counted())
    data = {"format": format_.value, "file": str(file), "bytes": size}
    text = f"{file}: {format_.value}, {size} bytes"
    reader.output.result({**data, "sha256": digest.hexdigest()}, lambda: text, state=state())


def report(
    context: typer.Context,
    path: str = argument(
        "[PATH|-]", "File to write; - is stdout. An existing file is replaced.", default="-"
    ),
) -> None:
    """Write a report of the workflow.

    The report has the objective, results with digests, failures and fixes, amendments, sessions
    and cost.
    """
    with reading(context) as workflow:
        state = workflow.state()
        seen = look(workflow.root, workflow.log, state)
        root = workflow.root.path.resolve()
        place = root if path == "-" else Path(path).absolute().parent.resolve()
        content = made(workflow.log, seen, Path(os.path.relpath(place, root)))
        data = {"path": None if path == "-" else path, "text": content.decode()}
        text = content.decode().rstrip("\n")
        if path != "-":
            write_to(Path(path).absolute(), content)
            text = f"written to {path}"
        workflow.output.result(data, lambda: text, state=state, seen=seen)
