"""Results of tasks that ran on another machine: all of them come, then each is put in its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lifecycle.sweeps.definition import DONE
from reconciler.attempt import execution_host, markers
from reconciler.attempt.paths import AttemptPaths
from reconciler.far import ask
from reconciler.submission.away import BACK
from reconciler.sweep.tasks import listed
from service.root.disk import write_whole

#: In the folder of the tasks: everything that they left there is here.
_WHOLE = "whole"


def bring_tasks(attempt: AttemptPaths) -> None:
    """Bring what the tasks of an attempt that is over left on another machine, done or not.

    May be done again after it was cut off at any point. Raises MachineUnreachable, OSError.
    """
    whole = attempt.tasks / _WHOLE
    # Without a place there nothing of it was ever submitted.
    if not execution_host.of(attempt).is_far or not attempt.place_record.exists():
        return
    if not whole.exists():
        if markers.read(attempt.exit_code_record, attempt.tag).code != 0:
            ask.bring(attempt, attempt.root, "list_left_results")
        write_whole(whole, b"")
    for found, target in list(_places(attempt)):
        _put(found, target, attempt.tasks / "aside")


def _places(attempt: AttemptPaths) -> Iterator[tuple[Path, Path]]:
    """Yield what came and where it goes, the journals last: they tell of all else.

    A folder whose name is that of no task which the attempt was given stays where it came to.
    """
    back, done = attempt.tasks / BACK, attempt.stage_folder / DONE
    given = {folder for _, folder, _ in listed(attempt)}
    came = [one for one in sorted(back.glob("*/*")) if one.name in given]
    for found in (one for one in came if one.parent.name == "done"):
        yield found, done / found.name
    for found in (one for one in came if one.parent.name in ("failed", "lost")):
        if (done / found.name).exists():  # it was judged anew, and is no result any more
            yield done / found.name, attempt.tasks / "aside" / found.name
        yield found, attempt.tasks / found.parent.name / found.name
    for found in sorted(back.glob("journal.*")):
        yield found, attempt.tasks / found.name


def _put(found: Path, target: Path, aside: Path) -> None:
    number, kept = 0, aside / target.name
    while target.exists() and kept.exists():
        number += 1
        kept = aside / f"{target.name}.~{number}~"
    if target.exists():
        target.rename(kept)
    found.rename(target)
