"""Download the results of tasks from another machine, and move each result to its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lifecycle.sweeps.definition import DONE
from reconciler.attempt import execution_host, markers
from reconciler.attempt.paths import AttemptPaths
from reconciler.far import query_machine
from reconciler.submission.transferred_files import BACK
from reconciler.sweep.tasks import read_task_list
from service.root.atomic_files import write_whole

#: Name of a file in the task folder which marks that all results were downloaded.
_DOWNLOADED_MARK = "whole"


def download_task_results(attempt: AttemptPaths) -> None:
    """Download the results of an ended attempt's tasks, and move them into place.

    Does nothing for jobs on this machine. Safe to repeat after an interruption. Raises
    MachineUnreachable or OSError.
    """
    whole = attempt.tasks / _DOWNLOADED_MARK
    # Without a folder on the other machine, no job of the attempt was submitted.
    if not execution_host.load_execution_host(attempt).is_far or not attempt.place_record.exists():
        return
    if not whole.exists():
        if markers.read_marker(attempt.exit_code_record, attempt.tag).code != 0:
            query_machine.download_results_without_monitor(
                attempt, attempt.root, "list_left_results"
            )
        write_whole(whole, b"")
    for found, target in list(_find_moves(attempt)):
        _move_into_place(found, target, attempt.tasks / "aside")


def _find_moves(attempt: AttemptPaths) -> Iterator[tuple[Path, Path]]:
    """Yield the current path and the final path of each downloaded result, journals last.

    The journals (records of the workers) refer to the other files, so they must come last. Folders
    that belong to no task of the attempt are omitted.
    """
    back, done = attempt.tasks / BACK, attempt.stage_folder / DONE
    given = {folder for _, folder, _ in read_task_list(attempt)}
    came = [one for one in sorted(back.glob("*/*")) if one.name in given]
    for found in (one for one in came if one.parent.name == "done"):
        yield found, done / found.name
    for found in (one for one in came if one.parent.name in ("failed", "lost")):
        if (done / found.name).exists():  # after a new check, the task is no longer a result
            yield done / found.name, attempt.tasks / "aside" / found.name
        yield found, attempt.tasks / found.parent.name / found.name
    for found in sorted(back.glob("journal.*")):
        yield found, attempt.tasks / found.name


def _move_into_place(found: Path, target: Path, aside: Path) -> None:
    number, kept = 0, aside / target.name
    while target.exists() and kept.exists():
        number += 1
        kept = aside / f"{target.name}.~{number}~"
    if target.exists():
        target.rename(kept)
    found.rename(target)
