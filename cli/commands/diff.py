"""``wfctl diff``: the differences between two states of the workflow."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from cli.commands.events import select_machine_log
from cli.frame.context import Context
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import File, KnownAt, Machine, Text, argument, option, parse_moment_options
from cli.frame.workspace import (
    OpenedWorkflow,
    open_for_reading,
    open_workflow_for_reading,
    settings_of,
)
from cli.terminal.output import Output, format_compact_json
from lifecycle.state.workflow import Workflow
from projections.files.document_diff import FieldDifference, find_differences
from projections.files.state_document import build_document
from service.reading.point_in_history import Moment


def diff(
    context: Context,
    first: Text = argument(
        "[A]",
        "The first moment: an event number (12), a time (2026-03-31T14:00), or the end of "
        "session N (session:N). Default: now.",
    ),
    second: Text = argument(
        "[B]",
        "The second moment: an event number (12), a time (2026-03-31T14:00), or the end of "
        "session N (session:N). Default: now.",
    ),
    root_b: File = option(
        "DIR",
        "Compare with the workflow in this folder, instead of with an earlier moment "
        "of the same workflow.",
    ),
    field: Text = option("FIELD", "Compare only this field, for example stage-2.parameters."),
    machine: Machine = None,
    known_at: KnownAt = None,
) -> None:
    """Compare two moments of the workflow, or two workflows.

    The command lists each field that differs. The exit code is 7 if a field differs.
    """
    other = replace(settings_of(context), root=root_b, database_url=None) if root_b else None
    with (
        open_for_reading(context) as here,
        open_workflow_for_reading(other) if other is not None else nullcontext(here) as there,
    ):
        before, old, _ = _diff_side(here, machine, parse_moment_options(first, known_at))
        after, new, state = _diff_side(there, machine, parse_moment_options(second, known_at))
        found = [
            one
            for one in find_differences(old, new)
            if field is None or f"{one.name}.".startswith(f"{field}.")
        ]
        told = [
            {"field": one.name, "stage": one.stage, "kind": one.kind, "a": one.old, "b": one.new}
            for one in found
        ]
        output = here.output if machine is None else select_machine_log(here, machine).output
        lines = [line for one in found for line in _format_difference(output, one)]
        versions = f"version {before['version']} and version {after['version']}"
        text = "\n".join(lines) or f"no field differs between {versions}"
        output.result({"a": before, "b": after, "differences": told}, lambda: text, state=state)
    if found:
        raise SystemExit(FINDINGS)


def _diff_side(
    root: OpenedWorkflow, machine: str | None, view: Moment | None
) -> tuple[dict[str, Any], dict[str, Any], Workflow | None]:
    """Return one side of ``wfctl diff``: name and version, document, and state.

    The state is None for a machine (the phase machine of an agent protocol).
    """
    if machine is not None:
        from cli.frame.machine_history import document_of

        version, whole = document_of(root, machine, view)
        return {"machine": machine, "version": version}, whole, None
    state = root.log.current(view)
    return {"workflow": state.id, "version": state.head}, build_document(state), state


def _format_difference(output: Output, difference: FieldDifference) -> list[str]:
    lines = [difference.name + (" (order)" if difference.kind == "order" else "")]
    if difference.kind != "added":
        lines.append(output.style(f"  - {format_compact_json(difference.old)}", "31"))
    if difference.kind != "removed":
        lines.append(output.style(f"  + {format_compact_json(difference.new)}", "32"))
    return lines
