"""``wfctl clean``: frees what attempts before the last good one left behind."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame.options import CommandId, DryRun, write_options
from cli.frame.workspace import engine
from lifecycle.errors import NeedsConsent
from lifecycle.words.span import span
from service.errors import InvalidOption

if TYPE_CHECKING:
    from cli.terminal.output import Output
    from reconciler.context import Jobs
    from reconciler.files.clearing import Clearing

Stages = Annotated[
    list[str] | None, typer.Argument(metavar="[STAGE...]", help="Only of these stages.")
]


def clean(
    context: typer.Context,
    stages: Stages = None,
    older: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Of attempts that ended 12h, 7d … ago."),
    ] = None,
    larger: Annotated[
        str | None,
        typer.Option("--larger-than", metavar="SIZE", help="Of attempts that hold more: 1 GB."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Free it without asking.")] = False,
    dry_run: DryRun = False,
    command_id: CommandId = None,
) -> None:
    """Say what attempts before the last good one left behind, ask, and free it."""
    from reconciler.files.clearing import clearings

    options = write_options(dry_run, command_id, None)
    age, size = _age(older), _size(larger)
    with engine(context, dry_run) as (jobs, output):
        if jobs.service.first_answer(options) is not None:
            _tell(output, jobs, [], freed=True)
            return
        found = clearings(jobs, jobs.service.state(), stages, age, size)
        if found and not (dry_run or yes):
            _ask(jobs, found)
        if found and not dry_run:
            _free(jobs, found, command_id)
        _tell(output, jobs, found, freed=not dry_run)


def _age(text: str | None) -> timedelta | None:
    if text is None:
        return None
    found = span(text)
    if found is None:
        raise InvalidOption(f"--older-than: expected an age such as 12h, 7d or 2w, found {text!r}")
    return found


def _size(text: str | None) -> int | None:
    from reconciler.files.leftovers import size_of

    found = None if text is None else size_of(text)
    if text is not None and found is None:
        raise InvalidOption(f"--larger-than: expected bytes, or 500 MB, 1 GB …, found {text!r}")
    return found


def _ask(jobs: Jobs, found: list[Clearing]) -> None:
    """Ask the person at the terminal; raises `NeedsConsent` where nobody agrees."""
    from cli.frame.consent import asked_at_terminal

    lines = "\n".join(_line(one) for one in found)
    total = sum(one.size for one in found)
    try:
        agreed = asked_at_terminal(
            jobs.service.actor, "what is freed", f"{lines}\n{total} bytes in all.", "wfctl clean"
        )
    except NeedsConsent as error:
        raise NeedsConsent(
            f"nothing was freed of:\n{lines}\n{total} bytes in all. `wfctl clean --yes` frees it "
            "without asking, `--dry-run` only looks.",
            bytes=total,
            freed=[],
        ) from error
    if not agreed:
        raise NeedsConsent("nothing was freed: n was typed.", bytes=total, freed=[])


def _line(one: Clearing) -> str:
    what = [f"{len(one.folders)} folders of scratch"] if one.folders else []
    what += [f"{len(one.files)} files that it left"] if one.files else []
    return f"{one.stage} {one.attempt}: {one.size} bytes: {', '.join(what)}"


def _free(jobs: Jobs, found: list[Clearing], command_id: str | None) -> None:
    """Record what is freed, and remove it: what is gone is named, whoever dies in between."""
    from reconciler.files.clearing import command, remove

    commands = [command(jobs.root, one) for one in found]
    options = write_options(False, command_id, None)
    outcome = jobs.service.handle(*commands, options=options)
    jobs.tell(outcome)
    for one in found:
        remove(one)


def _tell(output: Output, jobs: Jobs, found: list[Clearing], *, freed: bool) -> None:
    total = sum(one.size for one in found)
    data = {
        "dry_run": not freed,
        "bytes": total,
        "freed": [
            {
                "stage": one.stage,
                "attempt": one.attempt,
                "bytes": one.size,
                "paths": [str(path.relative_to(jobs.root)) for path in one.paths],
            }
            for one in found
        ],
    }
    verb = "freed" if freed else "would be freed"
    lines = [*map(_line, found), f"{total} bytes {verb}" if found else "nothing is to be freed"]
    output.changed(data, lambda: "\n".join(lines), jobs.service.state(), is_rehearsal=not freed)
