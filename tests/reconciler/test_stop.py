"""Stopping an attempt ends all of its processes and no others."""

from __future__ import annotations

import subprocess
from pathlib import Path

from reconciler.control.stop_jobs import kill_processes_in_folder
from reconciler.host.processes import start_ticks


def test_processes_below_the_folder_are_ended(tmp_path: Path) -> None:
    """A process in another folder whose name only starts the same continues to run."""
    inside, below, beside = tmp_path / "work", tmp_path / "work/stage-1", tmp_path / "work-2"
    for folder in (below, beside):
        folder.mkdir(parents=True)
    started = [subprocess.Popen(["sleep", "60"], cwd=f) for f in (inside, below, beside)]
    try:
        assert kill_processes_in_folder(inside).left == ()
        assert [start_ticks(process.pid) is None for process in started] == [True, True, False]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_process_that_starts_children_is_ended(tmp_path: Path) -> None:
    """A shell that keeps starting child processes is ended together with all children."""
    process = subprocess.Popen(["bash", "-c", "while :; do sleep 0.01; done"], cwd=tmp_path)
    try:
        assert kill_processes_in_folder(tmp_path).left == ()
        assert start_ticks(process.pid) is None
    finally:
        process.kill()
        process.wait()
