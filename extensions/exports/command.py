"""The command ``wfctl export``, which writes the workflow in formats of other tools."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cli.frame.context import Context
from cli.frame.options import AsOf, File, Text, argument, option
from cli.frame.workspace import OpenedWorkflow, open_for_reading
from cli.settings import Format
from cli.terminal.output import print_message, remove_terminal_codes
from extensions.exports.formats import FORMATS, ExportFormat, ExportSource
from lifecycle.state.workflow import Workflow
from projections.files import progress_log, state_document
from reconciler.errors import MissingInput
from service.errors import InvalidOption
from service.reading.point_in_history import Moment
from service.root.atomic_files import write_streamed
from service.root.paths_within_root import OutsideRoot, content_within

if TYPE_CHECKING:
    from extensions.handover.archive import Shown
    from extensions.handover.archive_files import FileSelection
    from extensions.machines.rules.machine import Machine
    from service.reading.stream_log import StreamLog


#: File suffixes for which only the metadata of an RO-Crate is written, without its files.
_METADATA = (".json", ".jsonld")


def export(
    context: Context,
    format_: Annotated[ExportFormat, argument("FORMAT", f"The format: {', '.join(ExportFormat)}.")],
    file: File = argument(
        "[FILE]",
        "The file to write (default: stdout). An RO-Crate can also be a .zip file or a folder.",
    ),
    view: AsOf = None,
    license_: Text = option(
        "--license",
        "URI|TEXT",
        "State this license for the data. Used only with the format ro-crate.",
    ),
    with_: Text = option(
        "--with",
        "KIND,...",
        "Choose which files an archive or RO-Crate contains: inputs, outputs, figures, "
        "scripts, or none.",
    ),
    machine: Text = option(
        "ID",
        "Export this phase machine (the tracked work of an agent) instead of the "
        "workflow. FORMAT must be mermaid or report.",
    ),
) -> None:
    """Export the workflow in another format."""
    with open_for_reading(context) as workflow:
        if machine is not None:
            options = {"--license": license_, "--with": with_}
            given = [name for name, value in options.items() if value is not None]
            _export_machine(workflow, machine, format_, file, view, given)
            return
        if format_ is ExportFormat.ARCHIVE:
            _export_archive(workflow, file, view, license_, with_)
            return
        if format_ is ExportFormat.RO_CRATE:
            _require_undamaged_logs(workflow, [])
            if file is not None and str(file) != "-" and file.suffix not in _METADATA:
                _export_crate(workflow, file, view, license_, with_)
                return
        if with_ is not None:
            raise InvalidOption(
                "the option --with can be used only with `wfctl export archive FILE` and with "
                "the folder or .zip file of `wfctl export ro-crate`. Remove --with."
            )
        source = replace(_build_export_source(workflow, view, format_), license=license_)
        _write_export(
            workflow, format_, file, _render_chunks(format_.value, source), workflow.state
        )


def _export_machine(
    root: OpenedWorkflow,
    machine: str,
    format_: ExportFormat,
    file: Path | None,
    when: Moment | None,
    given: list[str],
) -> None:
    """Write a diagram or a report of a phase machine. The diagram marks the current phase.

    Raises `InvalidOption` for any other format or option, and `StateNotFound` if there is no such
    machine.
    """
    from cli.commands.events import select_machine_log

    if format_ not in (ExportFormat.MERMAID, ExportFormat.REPORT) or given:
        found = " ".join([format_.value, *given])
        raise InvalidOption(
            f"`wfctl export {found}` is not available for a machine. Use `wfctl export mermaid "
            f"--machine {machine}` or `wfctl export report --machine {machine}`. To see the "
            f"history, run `wfctl log --machine {machine}`."
        )
    log = root.machine(machine)
    state = log.current(when)
    if format_ is ExportFormat.REPORT:
        from extensions.exports.report import render_machine_report as page

        chunks = page(log.steps(upto=when))
    else:
        from extensions.machines.views.description import draw_machine

        chunks = iter([draw_machine(state)])
    _write_export(select_machine_log(root, machine), format_, file, _encode_chunks(chunks))


def _build_export_source(
    workflow: OpenedWorkflow, when: Moment | None, format_: ExportFormat
) -> ExportSource:
    """Return the events and the state to export, up to the moment ``when``.

    By default, the export ends at the current end of the log; later events are not included. Raises
    `InvalidOption` if ``when`` is a time, but the format includes the hash chain and needs a
    version.
    """
    log = workflow.log
    upto = log.resolved(when)
    if upto.version is None:
        upto = upto._replace(version=_find_head_version(workflow))
    if (upto.so_by or upto.known_by) and FORMATS[format_.value].chained:
        raise InvalidOption(
            f"`wfctl export {format_.value} --at` needs a version, but {upto} is a time. To find "
            "the version at a time, run `wfctl events --until TIME`.",
            value=str(upto),
        )
    log.current(upto)  # Raise the error for a missing workflow before anything is written.
    return ExportSource(
        lambda: log.steps(upto=upto),
        lambda: islice(log.store.raw(log.stream), upto.version),
        lambda: log.current(upto),
        content=partial(_read_unchanged_content, workflow.root.path),
    )


def _read_unchanged_content(root: Path, one: Mapping[str, Any]) -> bytes | None:
    try:
        content = content_within(root, str(one["path"]), int(one["size"]))
    except (OSError, OutsideRoot, KeyError, ValueError):
        return None
    same = content is not None and sha256(content).hexdigest() == one.get("sha256")
    return content if same else None


def _find_head_version(workflow: OpenedWorkflow) -> int:
    head = workflow.log.store.head(workflow.log.stream)
    return head.version if head is not None else 0


def _export_archive(
    workflow: OpenedWorkflow,
    file: Path | None,
    when: Moment | None,
    license_: str | None,
    with_: str | None,
) -> None:
    from extensions.handover.archive import write_archive
    from extensions.machines.service.log import MachineLog
    from service.reading.machine_streams import list_machines

    if file is None or str(file) == "-" or when is not None:
        raise InvalidOption(
            "`wfctl export archive` needs a file name and cannot be combined with --at, because "
            "an archive always contains the whole log. Run `wfctl export archive FILE`."
        )
    _require_undamaged_logs(workflow, list_machines(workflow.root, workflow.store))
    head = _find_head_version(workflow)
    shown = _collect_log_descriptions(workflow, head, license_) if head else {}
    root, store = workflow.root, workflow.log.store
    machines = (MachineLog(store, one, root.path).state() for one in list_machines(root, store))
    state = workflow.log.current(Moment(version=head)) if head else None
    taken = _choose_files(workflow, state, [one for one in machines if one is not None], with_)
    manifest = write_archive(_resolve_target(file), workflow.root, workflow.log, shown, head, taken)
    data = {"format": "archive", "file": str(file), "bytes": file.stat().st_size}
    data |= {"taken": taken.files, "left_out": [asdict(one) for one in taken.left]}
    data |= {"streams": [asdict(stream) for stream in manifest.streams]}
    size = sum(taken.files.values())
    whose = manifest.workflow or f"{len(manifest.streams)} machines"
    lines = [
        f"{file}: archive of {whose}, {len(manifest.files)} files",
        f"  files of the workflow: {len(taken.files)} ({size:,} bytes)",
        *(f"  left out: {o.path} ({o.bytes:,} bytes): {o.why}" for o in taken.left),
    ]
    workflow.output.result(data, lambda: "\n".join(lines), state=workflow.log.state())


def _export_crate(
    workflow: OpenedWorkflow,
    file: Path,
    when: Moment | None,
    license_: str | None,
    with_: str | None,
) -> None:
    """Write a complete RO-Crate: a zip file if the suffix is ``.zip``, otherwise a folder."""
    from extensions.exports import ro_crate
    from extensions.handover.archive_files import read_chunks
    from extensions.handover.crate import write_folder, write_zip

    root = workflow.root
    source = _build_export_source(workflow, when, ExportFormat.RO_CRATE)
    taken = _choose_files(workflow, source.state(), [], with_)
    names = [name for name in taken.files if name != ro_crate.FILE]
    digests = {name: _compute_digest(root.path, name) or "" for name in names}
    source = replace(source, license=license_, carried=digests)
    parts: Shown = {
        ro_crate.FILE: partial(_render_chunks, "ro-crate", source),
        state_document.FILE_NAME: partial(_render_chunks, "state", source),
        **{name: partial(read_chunks, root.path, name) for name in names},
    }
    is_zip = file.suffix == ".zip"
    (write_zip if is_zip else write_folder)(
        _resolve_target(file) if is_zip else file.resolve(), parts
    )
    left = [asdict(one) for one in taken.left]
    data = {"format": "ro-crate", "file": str(file), "taken": taken.files, "left_out": left}
    lines = [
        f"{file}: ro-crate, {len(parts)} files",
        *(f"  left out: {o.path} ({o.bytes:,} bytes): {o.why}" for o in taken.left),
    ]
    workflow.output.result(data, lambda: "\n".join(lines), state=workflow.log.state())


def _require_undamaged_logs(workflow: OpenedWorkflow, machines: Iterable[str]) -> None:
    """Raise `UnsoundLog` if the log of the workflow or of a machine is damaged."""
    from service.questions.audit import require_sound

    logs: list[StreamLog[Any]] = [workflow.log, *map(workflow.machine, machines)]
    for log in logs:
        require_sound(workflow.root, log)


def _choose_files(
    workflow: OpenedWorkflow, state: Workflow | None, machines: Iterable[Machine], with_: str | None
) -> FileSelection:
    """Choose the files to include.

    Raises `InvalidOption` if ``with_`` names an unknown kind of files.
    """
    from extensions.handover.archive_files import KINDS, MOST_BYTES, FileSelection, choose_files

    if with_ == "none":
        return FileSelection()
    kinds = with_.split(",") if with_ is not None else KINDS
    if unknown := [one for one in kinds if one not in KINDS]:
        raise InvalidOption(
            f"the option --with does not accept {', '.join(unknown)}. Give none, or some of "
            f"{', '.join(KINDS)}."
        )
    path = workflow.root.path
    most = MOST_BYTES if with_ is None else None
    return choose_files(path, state, machines, kinds, partial(_compute_digest, path), most)


def _compute_digest(root: Path, path: str) -> str | None:
    from reconciler.attempt.file_digests import digests

    try:
        return digests(root, [path])[0].sha256
    except (MissingInput, OSError, ValueError):
        return None


def _collect_log_descriptions(workflow: OpenedWorkflow, head: int, license_: str | None) -> Shown:
    """Return the descriptions of the log to include, by file name.

    A signed checkpoint is included if possible.
    """
    from extensions.exports import ro_crate
    from extensions.exports.plan_toml import render_plan
    from extensions.proofs.check_checkpoints import signed_now
    from extensions.proofs.errors import CheckpointDenied

    version = Moment(version=head)
    source = replace(_build_export_source(workflow, version, ExportFormat.REPORT), license=license_)
    shown = {
        state_document.FILE_NAME: "state",
        progress_log.FILE_NAME: "log",
        "report.html": "report",
        ro_crate.FILE: "ro-crate",
    }
    every: Shown = {
        name: partial(_render_chunks, format_, source) for name, format_ in shown.items()
    }
    try:
        plan = render_plan(source.state()).encode("utf-8", "surrogateescape")
        every = {**every, "plan.toml": lambda: [plan]}
    except InvalidOption as error:
        print_message(f"wfctl: the archive contains no plan file: {error}")
    try:
        note = signed_now(workflow, workflow.log, head).note
    except (CheckpointDenied, OSError) as error:
        print_message(f"wfctl: the archive contains no checkpoint: {error}")
        return every
    return {**every, "log.checkpoint": lambda: [str(note).encode()]}


def _render_chunks(format_: str, source: ExportSource) -> Iterator[bytes]:
    return _encode_chunks(FORMATS[format_].chunks(source))


def _encode_chunks(chunks: Iterable[str]) -> Iterator[bytes]:
    return (chunk.encode("utf-8", "surrogateescape") for chunk in chunks)


def _resolve_target(file: Path) -> Path:
    """Return the file to replace, after following symbolic links.

    Raises `InvalidOption` if the path is a device.
    """
    if file.exists() and not file.is_file():
        raise InvalidOption(
            f"the path {file} is not a regular file, so wfctl cannot write to it. Name a file, or "
            "- for stdout."
        )
    return file.resolve()


def _write_export(
    reader: OpenedWorkflow,
    format_: ExportFormat,
    file: Path | None,
    chunks: Iterable[bytes],
    state: Callable[[], Workflow | None] = lambda: None,
) -> None:
    if file is None or str(file) == "-":
        if reader.output.settings.format is Format.JSON:
            raise InvalidOption(
                "the export cannot go to stdout with -o json, because stdout then contains the "
                "JSON result of the command. Name a FILE for the export."
            )
        sys.stdout.flush()
        for chunk in chunks:
            safe = reader.output.is_terminal
            told = (
                remove_terminal_codes(chunk.decode("utf-8", "replace")).encode() if safe else chunk
            )
            sys.stdout.buffer.write(told)
        return
    digest, size = sha256(), 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
            yield chunk

    write_streamed(_resolve_target(file), counted())
    data = {"format": format_.value, "file": str(file), "bytes": size}
    text = f"{file}: {format_.value}, {size} bytes"
    reader.output.result({**data, "sha256": digest.hexdigest()}, lambda: text, state=state())
