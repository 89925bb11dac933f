"""``wfctl replay``: the state, folded from the first event."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import typer

from cli.failure import FINDINGS
from cli.options import At, DryRun
from cli.workspace import Reading, reading, writing
from service.errors import InvalidOption


def replay(
    context: typer.Context,
    at: At = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the files and the stored state (exit 7).")
    ] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Write every file anew.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Fold the log from its first event and print the state."""
    if sum((check, rebuild, at is not None)) > 1:
        raise InvalidOption("--at, --check and --rebuild exclude each other")
    if rebuild and not dry_run:
        _rebuild(context)
    elif check or rebuild:
        _check(context, FINDINGS if check else 0)
    else:
        _show(context, at)


def _show(context: typer.Context, at: str | None) -> None:
    from projections.state_document import document, render

    with reading(context) as workflow:
        state = workflow.replayed(at)
        workflow.output.result(
            document(state), lambda: render(state).decode().rstrip("\n"), state=state
        )


def _rebuild(context: typer.Context) -> None:
    with writing(context, dry_run=False, anywhere=True) as (service, output):
        changed = service.files.rebuild()
        text = (
            f"written anew: {', '.join(changed)}" if changed else "every file was as it should be"
        )
        output.result({"written": changed}, lambda: text, state=service.state())


def _check(context: typer.Context, code: int) -> None:
    with reading(context) as workflow:
        findings = _findings(workflow)
        clean = "clean: the files and the stored state are what the log says"
        text = "\n".join(f"{f['file']}: {f['kind']}\n{f['diff']}" for f in findings)
        state = workflow.state()
        workflow.output.result({"findings": findings}, lambda: text or clean, state=state)
    if findings:
        raise typer.Exit(code)


def _findings(workflow: Reading) -> list[dict[str, Any]]:
    found = [
        {"file": d.file, "kind": d.kind, "diff": _diff(d.file, d.expected, d.found or b"")}
        for d in workflow.files.differences()
    ]
    if workflow.log.stored_differs():
        found.append({"file": "events.db (stored fold)", "kind": "changed", "diff": ""})
    return found


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
