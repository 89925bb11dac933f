"""The tasks of a simulated sweep, which works in a real folder.

The worker of this module writes the same files as the worker script: a journal, the outputs of each
task and a mark. The output of a task contains the key of the task, so that a test can recognize a
result of another task.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE
from lifecycle.sweeps.points import build_points
from reconciler.attempt.paths import AttemptPaths
from reconciler.sweep.stage_tasks import get_stage_tasks
from reconciler.sweep.tasks import MARK, read_task_list

STAGE, OUTPUT = "stage-1", "result.txt"
_POINTS = {"points": [{"x": 1}, {"x": 2}, {"x": 3}]}
#: The parameters of the simulated sweep.
PARAMETERS: dict[str, Any] = {"command": "compute", "map": _POINTS, "task_outputs": [OUTPUT]}


class Sweep:
    """The folder of a sweep, and what really happened to its tasks."""

    def __init__(self, root: Path, random: Random, tell: Callable[[str], None]) -> None:
        self.root = root
        self.random = random
        self.tell = tell
        self.points = build_points(_POINTS)
        #: Keys of tasks whose results exist and are undamaged.
        self.intact: set[str] = set()
        #: Number of tasks at the end of the list that the next worker does not see.
        self.hidden = 0
        self._origins: dict[str, str] = {}
        self._todo: dict[str, list[tuple[str, str]]] = {}

    def assign(
        self, state: Workflow, stage: Stage, attempt: AttemptPaths, recovers: str | None
    ) -> int | None:
        """Write the tasks of a new attempt with the real code, and return their number."""
        given = {"task_list": [{"command": "compute"}], "resources": {}}
        tasks = get_stage_tasks(self.root, state, stage)
        submission, count = tasks.assign(attempt, given, (), recovers, None)
        self._origins[attempt.tag] = submission["resources"]["envs"]["WFCTL_TASKS_ORIGIN"]
        return count

    def start_worker(self, attempt: AttemptPaths) -> None:
        """Let a worker read the list of tasks, which may be cut."""
        found = [(number, folder) for number, folder, _ in read_task_list(attempt)]
        if self.hidden:
            self.tell(f"the worker reads a list of tasks without the last {self.hidden}")
        self._todo[attempt.tag] = found[: len(found) - self.hidden]
        self.hidden = 0

    def run_task(self, attempt: AttemptPaths, microseconds: int) -> str | None:
        """Run the next task, and return its key, or None if no task is left."""
        todo = self._todo[attempt.tag]
        if not todo or not attempt.tasks.is_dir():
            return None
        number, folder = todo.pop(0)
        key = next(point.key for point in self.points if point.folder == folder)
        state = "failed" if self.random.random() < 0.05 else "done"
        self._write_result(attempt, number, key, folder, state, microseconds)
        journal = attempt.tasks / "journal.1"
        lines = f"j\tjob\ns\t{number}\t{microseconds}\n"
        if self.random.random() < 0.95:  # a worker may be killed before it records the end
            code, why = (0, "") if state == "done" else (1, "exit 1")
            lines += f"e\t{number}\t{state}\t{code}\t{microseconds}\t{why}\n"
        with journal.open("a") as stream:
            stream.write(lines)
        self.tell(f"the task {key} is {state}")
        return key

    def _write_result(
        self, attempt: AttemptPaths, number: str, key: str, folder: str, state: str, at: int
    ) -> None:
        done = self.root / STAGE / DONE
        place = (done if state == "done" else attempt.tasks / state) / folder
        place.mkdir(parents=True)
        (place / OUTPUT).write_text(key)
        if state == "done":
            mark = (attempt.tag, number, f"{at // 10**6}.{at % 10**6:06}")
            (place / MARK).write_text("\t".join([*mark, self._origins[attempt.tag], key]) + "\n")
            self.intact.add(key)

    def find_wrong_results(self) -> list[str]:
        """Return the keys of tasks whose folder does not contain their own result."""
        return [point.key for point in self.points if not self._has_own_result(point.folder)]

    def _has_own_result(self, folder: str) -> bool:
        place = self.root / STAGE / DONE / folder / OUTPUT
        key = next(point.key for point in self.points if point.folder == folder)
        return place.is_file() and place.read_text() == key

    # Faults

    def swap_folders(self) -> None:
        """Exchange the folders of two finished tasks."""
        done = self.root / STAGE / DONE
        found = sorted(one for one in done.iterdir()) if done.is_dir() else []
        if len(found) >= 2:
            first, second = self.random.sample(found, 2)
            self.tell(f"the task folders {first.name} and {second.name} are swapped")
            first.rename(done / "swapped")
            second.rename(first)
            (done / "swapped").rename(second)
            self._forget(first.name, second.name)

    def remove_folder(self) -> None:
        """Remove the folder of a finished task."""
        done = self.root / STAGE / DONE
        found = sorted(one for one in done.iterdir()) if done.is_dir() else []
        if found:
            place = self.random.choice(found)
            self.tell(f"the task folder {place.name} is removed")
            shutil.rmtree(place)
            self._forget(place.name)

    def _forget(self, *folders: str) -> None:
        self.intact -= {point.key for point in self.points if point.folder in folders}

    def cut_list(self) -> None:
        """Let the next worker see only the first tasks."""
        self.hidden = 1

    def cut_journal(self) -> None:
        """Remove the last characters of a journal, as after a crash of the machine."""
        found = sorted(self.root.glob(f"{STAGE}/.attempts/*/tasks/journal.1"))
        if found:
            self.tell("the last characters of a journal are lost")
            found[-1].write_text(found[-1].read_text()[:-5])
