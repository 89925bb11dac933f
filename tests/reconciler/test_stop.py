"""Ending an attempt's processes, and nobody else's."""

from __future__ import annotations

import subprocess
from pathlib import Path

from reconciler.control.stopping import stop_below
from reconciler.host.processes import start_ticks


def test_what_works_below_the_folder_is_ended_and_nobody_else(tmp_path: Path) -> None:
    """Given a process inside, one below, and one in a folder of a longer name: two end."""
    inside, below, beside = tmp_path / "work", tmp_path / "work/stage-1", tmp_path / "work-2"
    for folder in (below, beside):
        folder.mkdir(parents=True)
    started = [subprocess.Popen(["sleep", "60"], cwd=f) for f in (inside, below, beside)]
    try:
        assert stop_below(inside).left == ()
        assert [start_ticks(process.pid) is None for process in started] == [True, True, False]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_process_that_starts_another_is_ended_with_it(tmp_path: Path) -> None:
    """Given a shell that starts children all the while, nothing is left of it."""
    process = subprocess.Popen(["bash", "-c", "while :; do sleep 0.01; done"], cwd=tmp_path)
    try:
        assert stop_below(tmp_path).left == ()
        assert start_ticks(process.pid) is None
    finally:
        process.kill()
        process.wait()
