"""Which processes of a fault game belong to a job."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.faults.game_processes import (
    MARK,
    GameProcess,
    find_descendants,
    find_processes,
    find_shells,
)

PLACE = Path("/game")

#: A driver that is a shell, a monitor, two shells and their step, and a program of the outer shell.
PROCESSES = [
    GameProcess(1, 0, ("/bin/bash", "driver.sh")),
    GameProcess(2, 1, ("python", "monitor.py")),
    GameProcess(3, 2, ("/bin/sh", "-c", "measure")),
    GameProcess(4, 3, ("bash", "job.sh")),
    GameProcess(5, 4, ("python", "/game/step.py", "measure")),
    GameProcess(6, 3, ("tee", "log")),
]


def test_shells_of_a_job_end_at_the_first_other_process() -> None:
    """The shell that runs the driver does not belong to the job."""
    assert find_shells(PLACE, PROCESSES) == {3, 4}


def test_a_game_without_a_step_has_no_shells_of_a_job() -> None:
    """A shell is part of a job only if a step runs below it."""
    assert find_shells(PLACE, PROCESSES[:4]) == set()


def test_programs_that_the_shells_of_a_job_start_belong_to_the_job() -> None:
    """Such a program writes the exit code of the step."""
    assert find_descendants(PROCESSES, frozenset({3})) == {3, 4, 5, 6}


def test_a_process_whose_name_is_not_text_is_found(tmp_path: Path) -> None:
    """Another user of the machine may start a process with any name during a game."""
    program = tmp_path / os.fsdecode(b"\xff")
    shutil.copy(str(shutil.which("sleep")), program)
    process = subprocess.Popen([program, "60"], env={MARK: str(tmp_path)})
    try:
        deadline = time.monotonic() + 10  # the arguments appear shortly after Popen returns
        while not find_processes(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [found.number for found in find_processes(tmp_path)] == [process.pid]
    finally:
        process.kill()
        process.wait()
