"""``wfctl diff``: field by field between two moments, or two workflows."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from cli.commands.events import of_machine
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import KnownAt
from cli.frame.workspace import Reading, moment, reading, reading_of, settings_of
from cli.terminal.output import Output, compact
from lifecycle.state.workflow import Workflow
from projections.files.document_diff import FieldDifference, differences
from projections.files.state_document import document
from service.reading.moment import Moment

First = Annotated[str | None, typer.Argument(metavar="[A]", help="A moment; else now.")]
Second = Annotated[str | None, typer.Argument(metavar="[B]", help="A later one; else now.")]


def diff(
    context: typer.Context,
    first: First = None,
    second: Second = None,
    root_b: Annotated[
        Path | None, typer.Option("--root-b", metavar="DIR", help="Another workflow, seen at B.")
    ] = None,
    field: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Only this, such as stage-2.parameters.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", metavar="ID", help="Of a phase machine.")
    ] = None,
    known_at: KnownAt = None,
) -> None:
    """What differs between two moments, or two workflows, field by field (exit 7 if anything)."""
    other = replace(settings_of(context), root=root_b, database_url=None) if root_b else None
    with (
        reading(context) as here,
        reading_of(other) if other is not None else nullcontext(here) as there,
    ):
        before = _side(here, machine, moment(first, known_at))
        after = _side(there, machine, moment(second, known_at))
        found = [
            difference
            for difference in differences(before.document, after.document)
            if field is None or f"{difference.name}.".startswith(f"{field}.")
        ]
        _print(here, before, after, found)
    if found:
        raise typer.Exit(FINDINGS)


class DiffSide(NamedTuple):
    """What is compared: its kind and id, its version, its document; the state of a workflow."""

    kind: str
    id: str
    version: int
    document: dict[str, Any]
    state: Workflow | None = None

    @property
    def named(self) -> dict[str, Any]:
        """What it is, for the answer."""
        return {self.kind: self.id, "version": self.version}


def _side(root: Reading, machine: str | None, view: Moment | None) -> DiffSide:
    if machine is not None:
        from cli.frame.machine_history import document_of

        return DiffSide("machine", machine, *document_of(root, machine, view))
    state = root.log.current(view)
    return DiffSide("workflow", state.id, state.head, document(state), state)


def _print(here: Reading, before: DiffSide, after: DiffSide, found: list[FieldDifference]) -> None:
    data = {
        "a": before.named,
        "b": after.named,
        "differences": [_record(difference) for difference in found],
    }
    output = here.output if after.state is not None else of_machine(here, after.id).output
    text = "\n".join(line for difference in found for line in _lines(output, difference))
    same = f"no field differs between version {before.version} and version {after.version}"
    output.result(data, lambda: text or same, state=after.state)


def _record(difference: FieldDifference) -> dict[str, Any]:
    return {
        "field": difference.name,
        "stage": difference.stage,
        "kind": difference.kind,
        "a": difference.old,
        "b": difference.new,
    }


def _lines(output: Output, difference: FieldDifference) -> list[str]:
    lines = [difference.name + (" (order)" if difference.kind == "order" else "")]
    if difference.kind != "added":
        lines.append(output.style(f"  - {compact(difference.old)}", "31"))
    if difference.kind != "removed":
        lines.append(output.style(f"  + {compact(difference.new)}", "32"))
    return lines
