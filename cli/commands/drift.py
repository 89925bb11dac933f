"""``wfctl drift …``: what others changed in the files, adopted or reverted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
from service.files.foreign_changes import ForeignChanges, closing
from service.files.workflow_files import STATE

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

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
    file: str = argument("[FILE]", "The file.", default=STATE),
    detected: Detected = None,
    only: Texts = option("FIELD", "Only this field."),
    evidence: Text = option("TEXT", "What shows that a stage is completed."),
) -> None:
    """Turn a change into events, through the rules; definitional ones are only proposed."""
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
    """Raise `NotFound` if nothing waits for a decision."""
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
    """Dismiss what others changed: the files stay as the log has them, the change is kept."""
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
