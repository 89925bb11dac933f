"""``wfctl drift …`` and ``wfctl verify``: find files and results that differ from the log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cli.frame.ask_decision import Decision, DecisionKey, build_edit_dismissal, record_decisions
from cli.frame.context import Context
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import KeyedWrites, Text, Texts, Writes, argument, option
from cli.frame.workspace import open_for_reading, open_for_writing
from cli.frame.write_command import print_outcome
from cli.terminal.output import Output
from lifecycle.payload import models as p
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage
from lifecycle.sweeps.definition import sweep_table_paths
from projections.words.account import Deviation, find_stale_stages, list_attention_items, to_dicts
from reconciler.files.freshness import find_deviations, format_stale_stages
from service.errors import InvalidOption, NotFound
from service.files.foreign_changes import ForeignChanges, build_closing_command
from service.files.workflow_files import STATE
from service.writing.stream_writer import WriteOptions
from wfctl_eventstore.extension import find_extension

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

OnlyFile = Annotated[
    Text,
    argument(
        "[FILE]", "The manually edited file, for example workflow-state.json. Default: all files."
    ),
]
Detected = Annotated[
    int | None,
    option(
        "--detected",
        "VERSION",
        "Select an edit by the number of the log event that recorded it. Default: the newest edit.",
    ),
]
Change = dict[str, Any]


def show(context: Context, file: OnlyFile = None) -> None:
    """Show manual edits of files that wfctl generates.

    The exit code is 7 if there are manual edits. The command also shows changed results, and the
    stages that are out of date because of these changes.
    """
    from reconciler.files.freshness import find_log_differences

    with open_for_reading(context) as workflow:
        changes = ForeignChanges(workflow.root, workflow.log)
        names = ("file", "kind", "base", "detected", "kept_as")
        found: list[Change] = [
            {name: getattr(one, name) for name in names}
            | {"differences": changes.describe_differences(one)}
            for one in changes.list_undecided_versions(file)
        ]
        output = workflow.output
        state = workflow.state()
        seen = find_log_differences(workflow.root, workflow.log, state)
        known = [one for one in list_attention_items(state, seen) if one.is_of_files]
        stands = [one for one in known if file in (None, one.subject)]
        lines = [line for change in found for line in _format_edit(change, output)]
        text = "\n".join([*lines, *map(str, stands)])
        output.result(
            {"changes": found, "account": to_dicts(stands)},
            lambda: text or "no manual edit waits for a decision",
            state=state,
            seen=seen,
        )
    if found or any(one.person for one in stands):
        raise SystemExit(FINDINGS)


def _format_edit(change: Change, output: Output) -> Iterator[str]:
    where = "on the disk, not yet recorded"
    if change["detected"] is not None:
        where = f"detected at version {change['detected']}, kept as {change['kept_as']}"
    since = f"as of version {change['base']} of the log"
    yield f"{output.style(change['file'], '1')}: {change['kind']} ({since}; {where})"
    for one in change["differences"]:
        kind = one["kind"]
        old, new = (json.dumps(one[side], ensure_ascii=False) for side in ("old", "new"))
        told = {"added": f"added {new}", "removed": f"removed {old}"}.get(kind, f"{old} -> {new}")
        yield f"  {one['field']}: {told}{' (order)' if kind == 'order' else ''}"


def adopt(
    context: Context,
    options: Writes,
    file: str = argument("[FILE]", "The manually edited file to adopt.", default=STATE),
    detected: Detected = None,
    only: Texts = option("FIELD", "Adopt only this field of the file. You can repeat this option."),
    evidence: Text = option(
        "TEXT",
        "Record in the log how you know that the stage is completed.",
    ),
) -> None:
    """Accept a manual edit of a generated file.

    wfctl records the edit in the log. If the edit changes the definition of a stage, wfctl only
    proposes the change.
    """
    from reconciler.files.hand_launched_jobs import build_proven_edit_commands

    with open_for_writing(context, options.dry_run) as (service, output):

        def launched(stage: Stage) -> list[tuple[Payload, str]]:
            return build_proven_edit_commands(
                service.root.path, service.state(), stage, service.clock()
            )

        if not options.dry_run:
            # Record manual edits that are on the disk but not yet in the log, so that the newest
            # edit can be adopted.
            service.files.bring_up_to_date()
        changes = ForeignChanges(service.root, service.log)
        waiting = [
            one for one in changes.list_undecided_versions(file) if detected in (None, one.detected)
        ]
        waiting = [one for one in waiting if one.kind != "appended"]
        _require_edits(waiting, file, detected)
        change = waiting[-1]
        found = changes.adoption(change, only or [], evidence, launched)
        last = build_closing_command(change, found)
        options = options._replace(occurred_each=(*found.at, *(None for _ in last)))
        print_outcome(output, service.handle(*found.commands, *last, options=options), options)


def _require_edits(found: Sequence[object], file: str, detected: int | None) -> None:
    when = f" that was detected at version {detected}" if detected is not None else ""
    if not found:
        raise NotFound(
            f"no manual edit of the file {file}{when} waits for a decision. To list the edits "
            "that wait, run `wfctl drift show`.",
            file=file,
            detected=detected,
        )


def revert(
    context: Context,
    options: Writes,
    file: OnlyFile = None,
    detected: Detected = None,
    key: DecisionKey = None,
) -> None:
    """Discard a manual edit of a generated file.

    wfctl writes the file again from the log, and keeps a copy of the edited file.
    """
    with open_for_writing(context, options.dry_run) as (service, output):
        if not options.dry_run:
            service.files.bring_up_to_date()
        meant = [
            build_edit_dismissal(one)
            for one in service.state().drifts
            if file in (None, one.file) and detected in (None, one.version)
        ]
        if detected is not None:
            _require_edits(meant, file or "any file", detected)
        line = f"wfctl drift revert{f' {file}' if file else ''}"
        print_outcome(output, record_decisions(service, meant, line, key, options), options)


Stages = Annotated[
    Texts,
    argument(
        "[STAGE...]",
        "The completed stages to check, for example stage-2 (default: all completed stages).",
    ),
]
AdoptReason = Annotated[
    Text,
    option(
        "--reason", "TEXT", "Record in the log why you accept the changed files. Requires --adopt."
    ),
]
Deep = Annotated[
    bool,
    option(
        "--deep",
        "Compute the checksum of every file. Default: only of files whose size or "
        "modification time changed.",
    ),
]


def verify(
    context: Context,
    options: KeyedWrites,
    stages: Stages = None,
    deep: Deep = False,
    adopt: bool = option(
        "Accept the current result files, even if they were changed or deleted. Only "
        "a person can do this."
    ),
    restore: bool = option(
        "Rebuild damaged task tables (tasks.csv) from the files in the task folders."
    ),
    reason: AdoptReason = None,
    key: DecisionKey = None,
) -> None:
    """Check that results still match the log.

    wfctl reads the results and inputs of completed stages. The exit code is 7 if a file changed.
    """
    _check_verify_options(options, reason, key, adopt=adopt, restore=restore)
    if adopt:
        _adopt_results(context, options, stages or [], reason, key)
        return
    restored = _restore_tables(context, stages, dry_run=options.dry_run) if restore else []
    with open_for_reading(context) as workflow:
        state = workflow.state()
        if deep:
            from reconciler.sweep.deviations import find_all_deviations

            found = find_all_deviations(workflow.root.path, state, only=stages)
        else:
            found = find_deviations(workflow.root.path, state, only=stages)
        reasons = find_stale_stages(state, found)
        proofs = find_extension("proofs")
        checked = proofs.check_checkpoints(workflow) if proofs is not None else None
        denied = [one._asdict() for one in checked.findings] if checked is not None else []
        more: dict[str, Any] = {"denied": denied} if denied else {}
        more |= {"restored": restored} if restore else {}
        workflow.output.result(
            {"deep": deep, "found": [one.to_dict() for one in found], "stale": reasons, **more},
            lambda: "\n".join(
                [
                    *(one["message"] for one in denied),
                    *(f"{path} {_format_restored(options.dry_run)}" for path in restored),
                    *_describe_deviations(found, reasons),
                ]
            ),
            state=state,
        )
    if denied or any(one.kind != "touched" for one in found):
        raise SystemExit(FINDINGS)


def _check_verify_options(
    options: WriteOptions, reason: str | None, key: Path | None, *, adopt: bool, restore: bool
) -> None:
    """Raise `InvalidOption` if the given options of ``wfctl verify`` exclude each other."""
    if adopt and restore:
        raise InvalidOption(
            "the options --adopt and --restore cannot be combined. Use --adopt to accept the "
            "changed results, or --restore to write the recorded results again."
        )
    if adopt:
        return
    if reason is not None or key is not None or options.command_id is not None:
        raise InvalidOption(
            "the options --reason, --key and --command-id can be used only with the option "
            "--adopt. Add --adopt, or remove these options."
        )
    if options.dry_run and not restore:
        raise InvalidOption(
            "the option --dry-run can be used only with --adopt or --restore. Add one of these "
            "options, or remove --dry-run."
        )


def _describe_deviations(found: list[Deviation], reasons: dict[str, list[str]]) -> list[str]:
    lines = [str(one) for one in found]
    tables = dict.fromkeys(one.stage for one in found if one.path in sweep_table_paths(one.stage))
    lines += [
        f"`wfctl verify {id_} --restore` writes the table of {id_} again from its tasks"
        for id_ in tables
    ]
    missing = [o.stage for o in found if (o.what, o.kind) == ("result", "missing")]
    lines += [
        f"if you deleted files of {id_} on purpose, record the deletion with `wfctl verify {id_} "
        "--adopt --reason TEXT`; the recorded digests stay valid"
        for id_ in dict.fromkeys(missing)
    ]
    if any(one.kind == "touched" for one in found):
        lines.append(
            "large files with only a new time were not read: `wfctl verify --deep` compares them"
        )
    return lines + ([format_stale_stages(reasons)] if reasons else []) or [
        "results and inputs match the log"
    ]


def _format_restored(is_dry_run: bool) -> str:
    return "would be written again" if is_dry_run else "was written again from its tasks"


def _restore_tables(context: Context, stages: list[str] | None, *, dry_run: bool) -> list[str]:
    """Restore damaged task tables of completed sweeps, and return their paths.

    A sweep is a stage with one task per point. With ``dry_run``, write nothing.
    """
    from reconciler.sweep.table import restore_tables

    with open_for_writing(context, dry_run) as (service, _):
        state, root = service.state(), service.root.path
        chosen = state.stages.values() if stages is None else map(state.stage, stages)
        done = [one for one in chosen if one.status is Status.COMPLETED]
        return [path for one in done for path in restore_tables(root, state, one, dry_run=dry_run)]


def _adopt_results(
    context: Context,
    options: WriteOptions,
    stages: list[str],
    reason: str | None,
    key: Path | None,
) -> None:
    from cli.frame.write_command import print_outcome
    from reconciler.attempt.file_digests import digests
    from reconciler.files.freshness import find_changed_results
    from reconciler.verification.numbers import measure_numbers

    if not stages or not reason:
        raise InvalidOption(
            "the option --adopt needs stages and a reason. Name the stages whose changed results "
            "you accept, and give the reason with --reason TEXT."
        )
    with open_for_writing(context, options.dry_run) as (service, output):
        root, state = service.root.path, service.state()
        decisions: list[Decision] = []
        for id_ in stages:
            stage = state.stage(id_)
            changed = {one.path: one.kind for one in find_changed_results(root, stage, deep=True)}
            found = digests(root, [path for path, kind in changed.items() if kind != "missing"])
            now = [p.FileDigest(path=f.path, size=f.size, sha256=f.sha256) for f in found]
            gone = [one for one in stage.results if changed.get(one["path"]) == "missing"]
            deleted = [p.FileDigest.model_validate(one) for one in gone]
            numbers = [p.MeasuredNumber.model_validate(one) for one in stage.metrics]
            lines = []
            if now:
                lines += [f"{id_}: results that were changed after their stage are accepted:"]
                lines += [f"  {one.path}, {one.size} bytes, SHA-256 {one.sha256}" for one in now]
                checks, read = measure_numbers(root, state, stage)
                lines += [f"  {one.name}: {one.detail}" for one in checks]
                paths = {one.path for one in deleted}
                numbers = [*read, *(one for one in numbers if one.path in paths)]
            if deleted:
                lines += [f"{id_}: deleted results whose recorded digests and numbers stay valid:"]
                lines += [f"  {o.path}, {o.size} bytes, SHA-256 {o.sha256}" for o in deleted]
            if lines:
                command = p.ResultsAdopted(
                    stage=id_, outputs=now, deleted=deleted, metrics=numbers, reason=reason
                )
                decisions.append(Decision(command, id_, "\n".join(lines)))
        line = f"wfctl verify {' '.join(stages)} --adopt --reason TEXT"
        print_outcome(output, record_decisions(service, decisions, line, key, options), options)
