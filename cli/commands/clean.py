"""``wfctl clean``: delete the files of attempts that a later successful attempt replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cli.frame.context import Context
from cli.frame.options import KeyedWrites, Text, Texts, argument, option
from cli.frame.workspace import open_job_runner
from cli.terminal.output import Output
from lifecycle.errors import NeedsConsent
from lifecycle.words.values import parse_span
from service.errors import InvalidOption

if TYPE_CHECKING:
    from reconciler.context import JobContext
    from reconciler.files.clear_folder import RemovableFiles


Stages = Annotated[
    Texts, argument("[STAGE...]", "The stages to clean, for example stage-2 (default: all stages).")
]


def clean(
    context: Context,
    options: KeyedWrites,
    stages: Stages = None,
    older: Text = option(
        "--older-than",
        "AGE",
        "Delete only files of attempts (runs of a stage) that ended more than this "
        "long ago, for example 12h or 7d.",
    ),
    larger: Text = option(
        "--larger-than",
        "SIZE",
        "Delete only files of attempts (runs of a stage) that use more disk space "
        "than this, for example 1 GB.",
    ),
    yes: bool = option("Delete the files without asking for confirmation."),
) -> None:
    """Delete leftover files of old attempts.

    wfctl lists the files and asks before it deletes them. It keeps the files of the last good
    attempt of each stage.
    """
    from reconciler.files.clear_folder import (
        build_removal_command,
        find_removable_files,
        remove_files,
    )
    from reconciler.files.leftovers import parse_size

    age = None if older is None else parse_span(older)
    if older is not None and age is None:
        raise InvalidOption(
            f"the value {older!r} of the option --older-than is not a valid age. Give an age such "
            "as 12h, 7d or 2w."
        )
    size = None if larger is None else parse_size(larger)
    if larger is not None and size is None:
        raise InvalidOption(
            f"the value {larger!r} of the option --larger-than is not a valid size. Give a number "
            "of bytes, or a size such as 500 MB or 1 GB."
        )
    with open_job_runner(context, options.dry_run) as (jobs, output):
        if jobs.service.first_answer(options) is not None:
            _print_result(output, jobs, [], freed=True)
            return
        found = find_removable_files(jobs, jobs.service.state(), stages, age, size)
        if found and not (options.dry_run or yes):
            _confirm_deletion(jobs, found)
        if found and not options.dry_run:
            # Record the deletion before deleting the files, so that the log names them even if the
            # process is killed in between.
            commands = [build_removal_command(jobs.root, one) for one in found]
            jobs.tell(jobs.service.handle(*commands, options=options))
            for one in found:
                remove_files(one)
        _print_result(output, jobs, found, freed=not options.dry_run)


def _confirm_deletion(jobs: JobContext, found: list[RemovableFiles]) -> None:
    from cli.frame.consent import ask_at_terminal

    total = sum(one.size for one in found)
    told = "\n".join([*map(_format_clearing, found), f"{total} bytes in all."])
    try:
        agreed = ask_at_terminal(jobs.service.actor, "what is freed", told, "wfctl clean")
    except NeedsConsent as error:
        raise NeedsConsent(
            f"nothing was deleted of:\n{told} Run `wfctl clean --yes` to delete these files "
            "without a question, or `wfctl clean --dry-run` to list them.",
            bytes=total,
            freed=[],
        ) from error
    if not agreed:
        raise NeedsConsent("you answered n, so nothing was deleted.", bytes=total, freed=[])


def _format_clearing(one: RemovableFiles) -> str:
    what = [f"{len(one.folders)} folders of scratch"] if one.folders else []
    what += [f"{len(one.files)} leftover files"] if one.files else []
    return f"{one.stage} {one.attempt}: {one.size} bytes: {', '.join(what)}"


def _print_result(
    output: Output, jobs: JobContext, found: list[RemovableFiles], *, freed: bool
) -> None:
    total = sum(one.size for one in found)
    told = [
        {"stage": one.stage, "attempt": one.attempt, "bytes": one.size}
        | {"paths": [str(path.relative_to(jobs.root)) for path in one.paths]}
        for one in found
    ]
    data = {"dry_run": not freed, "bytes": total, "freed": told}
    verb = "freed" if freed else "would be freed"
    lines = [
        *map(_format_clearing, found),
        f"{total} bytes {verb}" if found else "there are no leftover files to delete",
    ]
    output.print_change(
        data, lambda: "\n".join(lines), jobs.service.state(), is_rehearsal=not freed
    )
