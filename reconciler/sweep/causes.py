"""Why a task of a sweep failed: by what its command, or the check of it, wrote in its folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import VERDICTS
from lifecycle.words.cause import cause_of
from reconciler.records import traces
from reconciler.submission.build import ERROR_LOG, OUTPUT_LOG
from reconciler.sweep.tasks import Task, tasks_of
from reconciler.verdict.diagnosis import Diagnosis, of_texts

#: Tasks whose words a diagnosis holds whole.
_SHOWN = 3
#: … and that it names.
_NAMED = 20


def written(folder: Path) -> list[tuple[str, str]]:
    """Return the end of what a task wrote, each with the name of its file."""
    found = ((name, traces.end_of(folder / name)) for name in (ERROR_LOG, OUTPUT_LOG))
    return [(name, text) for name, text in found if text.strip()]


def why(folder: Path, ended: str) -> str:
    """Return the cause of a task's end before what its worker wrote down of it, ``exit 1``."""
    if not ended.startswith(("exit ", *VERDICTS)):
        return ended
    verdict = next((words for words in VERDICTS if ended.startswith(words)), "")
    texts = written(folder)
    if verdict:  # it came behind what the command wrote, in one of the two
        texts.sort(key=lambda one: -(folder / one[0]).stat().st_mtime_ns)
    cause = cause_of(*(text for _, text in texts))
    if cause is None:
        return ended
    return f"{verdict}{cause} ({ended.removeprefix(verdict)})"


def most(failed: Sequence[Task]) -> list[Task]:
    """Return the failed tasks, those first that failed of what most of them did."""
    counted = Counter(task.why for task in failed)
    return sorted(failed, key=lambda task: -counted[task.why])


def failed_of(root: Path, state: Workflow, stage: Stage) -> list[Task]:
    """Return the tasks of the stage that failed or were lost."""
    return [task for task in tasks_of(root, state, stage) if task.state in ("failed", "lost")]


def diagnosis_of(found: Diagnosis, root: Path, failed: Sequence[Task]) -> Diagnosis:
    """Return the diagnosis of a sweep's attempt, given that of its jobs: its tasks tell why."""
    if not failed:
        return found
    ordered = most(failed)
    kind = of_texts([(task.point.key, task.why) for task in ordered])
    output = "\n".join(_whole(root, ordered[:_SHOWN])) or None
    return replace(
        found,
        category=kind.category,
        because=kind.because,
        # The verdict on the tasks tells the cause, and of how many; their job ended well.
        cause=None,
        jobs=(),
        tasks=tuple(f"{one.point.key}: {one.why} ({one.folder})" for one in ordered[:_NAMED]),
        output=output,
        has_output=output is not None,
    )


def _whole(root: Path, tasks: Sequence[Task]) -> Iterator[str]:
    for task in tasks:
        for name, text in written(root / task.folder):
            yield f"{task.point.key}/{name}:\n{text}"
