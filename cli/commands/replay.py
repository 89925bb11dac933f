"""``wfctl replay``: the state, folded from the first event."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.exit_codes import FINDINGS
from cli.frame.options import At, DryRun, KnownAt
from cli.frame.workspace import Reading, reading, writing
from service.errors import InvalidOption

if TYPE_CHECKING:
    from service.files.inspection import Difference
    from service.machines.inspection import FileDifference


def replay(
    context: typer.Context,
    at: At = None,
    known_at: KnownAt = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the files and the stored state (exit 7).")
    ] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Write every file anew.")] = False,
    machine: Annotated[str | None, typer.Option(metavar="ID", help="Only a phase machine.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Fold the log from its first event and print the state."""
    if sum((check, rebuild, at is not None or known_at is not None)) > 1:
        raise InvalidOption("--at and --known-at, --check and --rebuild exclude each other")
    if rebuild and not dry_run:
        _rebuild(context, machine)
    elif check or rebuild:
        _check(context, FINDINGS if check else 0, machine)
    elif machine is not None:
        from cli.commands.machine import replaying

        replaying.show(context, machine, at, known_at)
    else:
        _show(context, at, known_at)


def _show(context: typer.Context, at: str | None, known_at: str | None) -> None:
    from projections.files.state_document import document, render

    with reading(context) as workflow:
        state = workflow.replayed(at, known_at)
        workflow.output.result(
            document(state), lambda: render(state).decode().rstrip("\n"), state=state
        )


def _rebuild(context: typer.Context, machine: str | None) -> None:
    changed = [] if machine is not None else _rebuilt_workflow(context)
    from cli.commands.machine import replaying  # loads what machines are made of

    changed += replaying.rebuilt(context, machine)
    text = f"written anew: {', '.join(changed)}" if changed else "every file was as it should be"
    with reading(context) as workflow:
        workflow.output.result({"written": changed}, lambda: text, state=workflow.log.state())


def _rebuilt_workflow(context: typer.Context) -> list[str]:
    with writing(context, dry_run=False, anywhere=True) as (service, _):
        return service.files.rebuild()


def _check(context: typer.Context, code: int, machine: str | None) -> None:
    with reading(context) as workflow:
        found = _findings(workflow, machine)
        clean = (
            "clean: the files and the stored state are what the log says; results and inputs of "
            "stages are looked at by `wfctl verify`"
        )
        text = "\n".join(f"{f['file']}: {f['kind']}\n{f['diff']}" for f in found)
        state = workflow.log.state()
        workflow.output.result({"findings": found}, lambda: text or clean, state=state)
    if found:
        raise typer.Exit(code)


def _findings(workflow: Reading, machine: str | None) -> list[dict[str, Any]]:
    """Return what is not as the log says: of a machine, or of all that the root has."""
    found: list[dict[str, Any]] = []
    if machine is None:
        listed = workflow.files.differences()
        found += [{"file": d.file, "kind": d.kind, "diff": _diff_of(d)} for d in listed]
        if workflow.log.stored_differs():
            found.append({"file": "events.db (stored fold)", "kind": "changed", "diff": ""})
    from cli.commands.machine import replaying

    theirs = replaying.differences_of(workflow.root, workflow.log.store, machine)
    return [*found, *({"file": d.file, "kind": d.kind, "diff": _diff_of(d)} for d in theirs)]


def _diff_of(difference: Difference | FileDifference) -> str:
    return _diff(difference.file, difference.expected, difference.found or b"")


def _diff(name: str, expected: bytes, found: bytes) -> str:
    lines = difflib.unified_diff(
        expected.decode(errors="replace").splitlines(),
        found.decode(errors="replace").splitlines(),
        f"{name} (by the log)",
        f"{name} (on disk)",
        lineterm="",
        n=1,
    )
    return "\n".join(lines)
