"""``wfctl drift …`` and ``verify``: files and results that are not as the log has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.deciding import Decision, DecisionKey, decide, dismissal_of
from cli.frame.options import FINDINGS, KeyedWrites, Text, Texts, Writes, argument, option
from cli.frame.workspace import reading, writing
from cli.frame.writes import tell
from cli.terminal.output import Output
from lifecycle.payload import models as p
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage
from lifecycle.sweeps.definition import table_of
from projections.words.account import Deviation, account, stale, to_dicts
from reconciler.files.freshness import deviations, told
from service.errors import InvalidOption, NotFound
from service.files.foreign_changes import ForeignChanges, closing
from service.files.workflow_files import STATE
from service.writing.stream_writer import WriteOptions

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

OnlyFile = Annotated[Text, argument("[FILE]", "Use only this file.")]
Detected = Annotated[
    int | None,
    option("--detected", "VERSION", "Version that detected the change (default: the last)."),
]
Change = dict[str, Any]


def show(context: typer.Context, file: OnlyFile = None) -> None:
    """Show each manually edited field (exit 7 if any).

    Results that changed, and what is stale for it, are named too.
    """
    from reconciler.files.freshness import look

    with reading(context) as workflow:
        changes = ForeignChanges(workflow.root, workflow.log)
        names = ("file", "kind", "base", "detected", "kept_as")
        found: list[Change] = [
            {name: getattr(one, name) for name in names} | {"differences": changes.explained(one)}
            for one in changes.waiting(file)
        ]
        output = workflow.output
        state = workflow.state()
        seen = look(workflow.root, workflow.log, state)
        known = [one for one in account(state, seen) if one.is_of_files]
        stands = [one for one in known if file in (None, one.subject)]
        lines = [line for change in found for line in _lines(change, output)]
        text = "\n".join([*lines, *map(str, stands)])
        output.result(
            {"changes": found, "account": to_dicts(stands)},
            lambda: text or "no change of others waits for a decision",
            state=state,
            seen=seen,
        )
    if found or any(one.person for one in stands):
        raise typer.Exit(FINDINGS)


def _lines(change: Change, output: Output) -> Iterator[str]:
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
    context: typer.Context,
    options: Writes,
    file: str = argument("[FILE]", "File to adopt.", default=STATE),
    detected: Detected = None,
    only: Texts = option("FIELD", "Adopt only this field."),
    evidence: Text = option("TEXT", "Evidence that the stage is completed."),
) -> None:
    """Adopt a manual edit as events; changes of definitions are only proposed."""
    from reconciler.files.by_hand import borne_out

    with writing(context, options.dry_run) as (service, output):

        def launched(stage: Stage) -> list[tuple[Payload, str]]:
            return borne_out(service.root.path, service.state(), stage, service.clock())

        if not options.dry_run:
            # What is still on the disk is recorded before.
            service.files.bring_up_to_date()
        changes = ForeignChanges(service.root, service.log)
        waiting = [one for one in changes.waiting(file) if detected in (None, one.detected)]
        waiting = [one for one in waiting if one.kind != "appended"]
        _require(waiting, file, detected)
        change = waiting[-1]
        found = changes.adoption(change, only or [], evidence, launched)
        last = closing(change, found)
        options = replace(options, occurred_each=(*found.at, *(None for _ in last)))
        tell(output, service.handle(*found.commands, *last, options=options), options)


def _require(found: Sequence[object], file: str, detected: int | None) -> None:
    when = f" that was detected at version {detected}" if detected is not None else ""
    if not found:
        raise NotFound(
            f"no change of {file}{when} waits for a decision; `wfctl drift show` lists those that "
            "do",
            file=file,
            detected=detected,
        )


def revert(
    context: typer.Context,
    options: Writes,
    file: OnlyFile = None,
    detected: Detected = None,
    key: DecisionKey = None,
) -> None:
    """Dismiss a manual edit; a copy is kept."""
    with writing(context, options.dry_run) as (service, output):
        if not options.dry_run:
            service.files.bring_up_to_date()
        meant = [
            dismissal_of(one)
            for one in service.state().drifts
            if file in (None, one.file) and detected in (None, one.version)
        ]
        if detected is not None:
            _require(meant, file or "any file", detected)
        line = f"wfctl drift revert{f' {file}' if file else ''}"
        tell(output, decide(service, meant, line, key, options), options)


Stages = Annotated[Texts, argument("[STAGE...]", "Ids of completed stages (default: all).")]


def verify(
    context: typer.Context,
    options: KeyedWrites,
    stages: Stages = None,
    deep: bool = option("Compare the digest of every file, also of files that were not touched."),
    adopt: bool = option("Accept the changed results of the stages as they are now."),
    restore: bool = option("Write damaged tables of tasks again from the folders of the tasks."),
    reason: Text = option("TEXT", "With --adopt: reason."),
    key: DecisionKey = None,
) -> None:
    """Check that results still match the log.

    Read the results and inputs of completed stages (exit 7 if any differs).
    """
    if adopt and restore:
        raise InvalidOption("--adopt takes results as they are, --restore writes them again")
    if adopt:
        _adopt(context, options, stages or [], reason, key)
        return
    if reason is not None or key is not None or options.command_id is not None:
        raise InvalidOption("--reason, --key and --command-id go with --adopt")
    if options.dry_run and not restore:
        raise InvalidOption("--dry-run goes with --adopt and --restore")
    restored = _restore(context, stages, dry_run=options.dry_run) if restore else []
    from cli.frame.checkpoints import judged

    with reading(context) as workflow:
        state = workflow.state()
        if deep:
            from reconciler.sweep.deviations import all_deviations

            found = all_deviations(workflow.root.path, state, only=stages)
        else:
            found = deviations(workflow.root.path, state, only=stages)
        reasons = stale(state, found)
        denied = [one._asdict() for one in judged(workflow).findings]
        more: dict[str, Any] = {"denied": denied} if denied else {}
        more |= {"restored": restored} if restore else {}
        workflow.output.result(
            {"deep": deep, "found": [one.to_dict() for one in found], "stale": reasons, **more},
            lambda: "\n".join(
                [
                    *(one["message"] for one in denied),
                    *(f"{path} {_restored(options.dry_run)}" for path in restored),
                    *_deviation_lines(found, reasons),
                ]
            ),
            state=state,
        )
    if denied or any(one.kind != "touched" for one in found):
        raise typer.Exit(FINDINGS)


def _deviation_lines(found: list[Deviation], reasons: dict[str, list[str]]) -> list[str]:
    lines = [str(one) for one in found]
    tables = dict.fromkeys(one.stage for one in found if one.path in table_of(one.stage))
    lines += [
        f"`wfctl verify {id_} --restore` writes the table of {id_} again from its tasks"
        for id_ in tables
    ]
    if any(one.kind == "touched" for one in found):
        lines.append("what was only touched is big: `wfctl verify --deep` compares it")
    return lines + ([told(reasons)] if reasons else []) or ["results and inputs are as recorded"]


def _restored(is_dry_run: bool) -> str:
    return "would be written again" if is_dry_run else "was written again from its tasks"


def _restore(context: typer.Context, stages: list[str] | None, *, dry_run: bool) -> list[str]:
    """Write damaged tables of completed sweeps again; return their paths."""
    from reconciler.sweep.table import restore

    with writing(context, dry_run) as (service, _):
        state, root = service.state(), service.root.path
        chosen = state.stages.values() if stages is None else map(state.stage, stages)
        done = [one for one in chosen if one.status is Status.COMPLETED]
        return [path for one in done for path in restore(root, state, one, dry_run=dry_run)]


def _adopt(
    context: typer.Context,
    options: WriteOptions,
    stages: list[str],
    reason: str | None,
    key: Path | None,
) -> None:
    from cli.frame.writes import tell
    from reconciler.attempt.markers import digests
    from reconciler.files.freshness import changed_results
    from reconciler.verification.numbers import numbers_of

    if not stages or not reason:
        raise InvalidOption("--adopt takes the stages whose results it is about, and a --reason")
    with writing(context, options.dry_run) as (service, output):
        root, state = service.root.path, service.state()
        decisions: list[Decision] = []
        for id_ in stages:
            changed = changed_results(root, state.stage(id_), deep=True)
            found = digests(root, [one.path for one in changed])
            now = [p.FileDigest(path=f.path, size=f.size, sha256=f.sha256) for f in found]
            lines = [f"{id_}: results that were changed afterwards count as they are:"]
            lines += [f"  {one.path}, {one.size} bytes, SHA-256 {one.sha256}" for one in now]
            checks, numbers = numbers_of(root, state, state.stage(id_))
            lines += [f"  {one.name}: {one.detail}" for one in checks]
            if now:
                command = p.ResultsAdopted(stage=id_, outputs=now, metrics=numbers, reason=reason)
                decisions.append(Decision(command, id_, "\n".join(lines)))
        line = f"wfctl verify {' '.join(stages)} --adopt --reason TEXT"
        tell(output, decide(service, decisions, line, key, options), options)
