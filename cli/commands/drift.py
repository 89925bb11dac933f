"""``wfctl drift …``: what others changed in the files, adopted or reverted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.deciding import DecisionKey, decide, dismissal_of
from cli.frame.options import FINDINGS, Text, Texts, Writes, argument, option
from cli.frame.workspace import reading, writing
from cli.frame.writes import tell
from cli.terminal.output import Output
from lifecycle.state.workflow import Stage
from projections.words.account import account, to_dicts
from service.errors import NotFound
from service.files.foreign_changes import Foreign, ForeignChanges, closing
from service.files.workflow_files import STATE
from service.writing.workflow_service import Service

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from service.files.foreign_changes import Launched

OnlyFile = Annotated[Text, argument("[FILE]", "Only this file.")]
Detected = Annotated[
    int | None, option("--detected", "VERSION", "The change detected there; else the last.")
]
Change = dict[str, Any]


def show(context: typer.Context, file: OnlyFile = None) -> None:
    """Explain, field by field, what others changed (exit 7 where they did).

    Results that changed, and what is stale for it, are named too.
    """
    from reconciler.files.freshness import look

    with reading(context) as workflow:
        changes = ForeignChanges(workflow.root, workflow.log)
        found = [_told(changes, change) for change in changes.waiting(file)]
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


def _told(changes: ForeignChanges, change: Foreign) -> Change:
    return {
        "file": change.file,
        "kind": change.kind,
        "base": change.base,
        "detected": change.detected,
        "kept_as": change.kept_as,
        "differences": changes.explained(change),
    }


def _lines(change: Change, output: Output) -> list[str]:
    where = (
        f"detected at version {change['detected']}, kept as {change['kept_as']}"
        if change["detected"] is not None
        else "on the disk, not yet recorded"
    )
    since = f"as of version {change['base']} of the log"
    return [
        f"{output.style(change['file'], '1')}: {change['kind']} ({since}; {where})",
        *(f"  {_difference(difference)}" for difference in change["differences"]),
    ]


def _difference(difference: Change) -> str:
    name, kind = difference["field"], difference["kind"]
    old, new = (json.dumps(difference[side], ensure_ascii=False) for side in ("old", "new"))
    if kind == "added":
        return f"{name}: added {new}"
    if kind == "removed":
        return f"{name}: removed {old}"
    return f"{name}: {old} -> {new}" + (" (order)" if kind == "order" else "")


def adopt(
    context: typer.Context,
    options: Writes,
    file: str = argument("[FILE]", "The file.", default=STATE),
    detected: Detected = None,
    only: Texts = option("FIELD", "Only this field."),
    evidence: Text = option("TEXT", "What shows that a stage is completed."),
) -> None:
    """Turn a change into events, through the rules; definitional ones are only proposed."""
    with writing(context, options.dry_run) as (service, output):
        change, changes = _chosen(service, file, detected, options.dry_run)
        found = changes.adoption(change, only or [], evidence, _launched(service))
        last = closing(change, found)
        options = replace(options, occurred_each=(*found.at, *(None for _ in last)))
        tell(output, service.handle(*found.commands, *last, options=options), options)


def _launched(service: Service) -> Launched:
    def look(stage: Stage) -> list[tuple[Payload, str]]:
        from reconciler.files.by_hand import borne_out

        return borne_out(service.root.path, service.state(), stage, service.clock())

    return look


def _chosen(
    service: Service, file: str, detected: int | None, dry_run: bool
) -> tuple[Foreign, ForeignChanges]:
    """Return the change to be decided; what is still on the disk is recorded before."""
    if not dry_run:
        service.files.bring_up_to_date()
    changes = ForeignChanges(service.root, service.log)
    waiting = [
        change
        for change in changes.waiting(file)
        if detected in (None, change.detected) and change.kind != "appended"
    ]
    if not waiting:
        raise _nothing(file, detected)
    return waiting[-1], changes


def _nothing(file: str, detected: int | None) -> NotFound:
    when = f" that was detected at version {detected}" if detected is not None else ""
    return NotFound(
        f"no change of {file}{when} waits for a decision; `wfctl drift show` lists those that do",
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
    """Dismiss what others changed: the files stay as the log has them, the change is kept."""
    with writing(context, options.dry_run) as (service, output):
        if not options.dry_run:
            service.files.bring_up_to_date()
        meant = [
            dismissal_of(one)
            for one in service.state().drifts
            if file in (None, one.file) and detected in (None, one.version)
        ]
        if detected is not None and not meant:
            raise _nothing(file or "any file", detected)
        line = f"wfctl drift revert{f' {file}' if file else ''}"
        tell(output, decide(service, meant, line, key, options), options)
