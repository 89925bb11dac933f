"""The command ``wfctl import``, which reads a workflow kept by hand, or an archive."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from cli.commands.init import Consent, PlanKey, Policy, Signers, signers_of
from cli.frame.approve_plan import approve_new_plan
from cli.frame.context import Context
from cli.frame.options import File, Text, Writes, argument, option
from cli.frame.workspace import create_log, settings_of
from cli.frame.write_command import list_planned_files
from cli.settings import actor_of
from cli.terminal.output import Output
from extensions.adoption.adopt import ImportResult, adopt_workflow
from extensions.adoption.software import FILE, read_software, stages_without_software
from extensions.adoption.state_file import parse_offset
from extensions.adoption.versions import ImportFinding, read_sources
from reconciler.files.attempt_inputs import find_imported_attempt_inputs
from service.errors import InvalidOption
from service.root.atomic_files import system_clock, utc_text
from service.writing.initialise import root_at
from service.writing.stream_writer import WriteOptions
from wfctl_eventstore.extension import require_extension

Source = Annotated[
    Path,
    argument(
        "DIR|FILE",
        "The folder that contains workflow-state.json and progress.log, or an archive file "
        "of `wfctl export archive`.",
    ),
]


def import_(
    context: Context,
    options: Writes,
    source: Source,
    into: File = option("DIR2", "Create the imported workflow in this folder, not in DIR."),
    git: bool = option(
        "Import all versions of the files from the git history of DIR, oldest first."
    ),
    utc_offset: Text = option(
        "+HH:MM",
        "Use this UTC offset for imported times without a time zone. Default: the "
        "offset that wfctl detects, otherwise local time.",
    ),
    consent: Policy = Consent.TERMINAL,
    signers: Signers = None,
    key: PlanKey = None,
) -> None:
    """Import a workflow from an archive or hand-written files.

    The command reports problems in the imported files, but does not change these files.
    """
    if source.is_file():
        _refuse_folder_only_options(context)
        handover = require_extension("handover", f"the import of the archive {source}")
        handover.restore_archive(context, source, into, dry_run=options.dry_run)
        return
    settings = settings_of(context)
    zone = parse_offset(utc_offset) if utc_offset is not None else None
    if utc_offset is not None and zone is None:
        wrong = f"expected an offset such as +02:00 or Z, found {utc_offset!r}"
        raise InvalidOption(wrong, value=utc_offset)
    sources = read_sources(source.resolve(), now=utc_text(system_clock()), git=git, zone=zone)
    place = _create_folder(into or settings.root or source, options.dry_run)
    root = root_at(place, settings.database_url, settings.journal)
    content = {"import": str(sources.folder), "git": git, "consent": consent.value}
    options = options._replace(content=content)
    adoption = adopt_workflow(
        root,
        sources,
        connect=create_log,
        actor=actor_of(settings),
        clock=system_clock,
        options=options,
        rests_of=find_imported_attempt_inputs,
        consent=consent.value,
        signers=signers_of(consent, signers, key),
    )
    if not options.dry_run:
        outcome = approve_new_plan(settings, root, adoption.outcome, f"import {source}", key)
        adoption = replace(adoption, outcome=outcome)
    _print_result(Output(settings, root=root), adoption, options)


def _refuse_folder_only_options(context: Context) -> None:
    """Raise `InvalidOption` if an option was typed that does not apply to an archive."""
    names = ("git", "utc_offset", "consent", "signers", "key", "command_id", "expected_version")
    sources = {name: context.get_parameter_source(name) for name in names}
    typed = [name for name, of in sources.items() if of is not None and of.name == "COMMANDLINE"]
    if typed:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in typed)
        raise InvalidOption(
            f"{given} cannot be used when you import an archive, because the archive contains its "
            "own consent policy and command ids. Remove these options, or import a folder "
            "instead."
        )


def _create_folder(place: Path, dry_run: bool) -> Path:
    if place.exists() or not place.parent.is_dir():
        return place
    if dry_run:
        return place.parent
    place.mkdir()
    return place


def _print_result(output: Output, adoption: ImportResult, options: WriteOptions) -> None:
    outcome, findings = adoption.outcome, adoption.findings
    types = Counter(payload.type for payload, _ in outcome.planned)
    data = {
        "dry_run": options.dry_run,
        "repeated": outcome.repeated,
        "workflow": outcome.state.id,
        "source": str(adoption.sources.folder),
        "versions": len(adoption.sources.versions),
        "events": len(outcome.events or outcome.planned),
        "findings": [finding.to_dict() for finding in findings],
        **list_planned_files(outcome, options),
    }
    software = _suggest_described_software(adoption)
    data |= {"software": software} if software else {}
    kinds = Counter(finding.kind for finding in findings).most_common()
    lines = [
        *_format_table(output, findings),
        (
            f"{'would import' if options.dry_run else 'imported'} {outcome.state.id}: "
            f"{data['events']} events ({types['line.imported']} of lines, "
            f"{types['state.imported']} of states)"
        ),
        f"findings: {', '.join(f'{number} {kind}' for kind, number in kinds) or 'none'}",
        *_software_lines(software),
    ]
    position = outcome.events[-1].position if outcome.events else None
    output.print_change(
        data,
        lambda: "\n".join(lines),
        outcome.state,
        is_rehearsal=options.dry_run,
        position=position,
    )


def _suggest_described_software(adoption: ImportResult) -> dict[str, Any]:
    """Return the software described next to the imported files, and the command to use it.

    Returns an empty dictionary if nothing is described, or if no unfinished stage needs software.
    """
    found = read_software(adoption.sources.folder)
    stages = stages_without_software(adoption.outcome.state)
    if found is None or not stages:
        return {}
    line = [
        *("wfctl", "amend", "propose"),
        *(word for stage in stages for word in ("--stage", stage)),
        *("--set", f"parameters.environment.conda={found.name}"),
        *("--reason", f"the environment of {FILE}"),
    ]
    return {"file": FILE, **asdict(found), "command": shlex.join(line)}


def _software_lines(software: dict[str, Any]) -> Iterator[str]:
    if software:
        yield (
            f"{software['file']} describes the environment {software['name']}; its stages run in "
            f"it after `{software['command']}`, if conda knows it"
        )
        for argv in software["commands"].values():
            yield f"  else a command begins with `{shlex.join(argv)}`"


def _format_table(output: Output, findings: tuple[ImportFinding, ...]) -> Iterator[str]:
    rows = []
    for one in findings:
        commit = f"{one.commit[:9]}:" if one.commit else ""
        last = "" if one.last_line in (None, one.line) else f"-{one.last_line}"
        rows.append((one.kind, f"{commit}{one.file}:{one.line}{last}", one.stage or ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row, one in zip(rows, findings, strict=True):
        kind, where, stage = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield f"{output.style(kind, '33')}  {where}  {stage}  {one.evidence}"
