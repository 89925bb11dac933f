"""Processes, locks and tmux sessions that prove whether an attempt still runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.host import processes, tmux_sessions
from reconciler.host.file_locks import is_lock_held
from tests.reconciler.support import Stage, until

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a sleeping process whose working folder is `work`."""
    (tmp_path / "work").mkdir()
    with subprocess.Popen(SLEEP, cwd=tmp_path / "work") as process:
        yield process
        process.kill()


def test_process_is_identified_by_its_start_time(sleeper: subprocess.Popen[bytes]) -> None:
    """A process with the same id but another start time or boot is not the same process."""
    found = processes.identify(sleeper.pid)
    assert found is not None
    assert found.is_alive()
    assert not replace(found, ticks=found.ticks + 1).is_alive()
    assert not replace(found, boot_id="another").is_alive()


def test_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    """A process that ended but was not reaped by its parent counts as ended."""
    found = processes.identify(sleeper.pid)
    assert found is not None
    sleeper.kill()
    until(lambda: not found.is_alive())
    assert Path(f"/proc/{sleeper.pid}").exists()


def test_process_group_is_identified_by_its_environment() -> None:
    """The group must have a live process with exactly this variable in its environment."""
    environ = {**os.environ, "OURS": "one"}
    with subprocess.Popen(SLEEP, env=environ, start_new_session=True) as process:
        assert processes.has_group_variable(process.pid, "OURS=one")
        assert not processes.has_group_variable(process.pid, "OURS=on")
        assert not processes.has_group_variable(os.getpgrp(), "OURS=one")
        process.kill()
        until(lambda: not processes.has_group_variable(process.pid, "OURS=one"))


def test_processes_are_found_below_a_folder(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """A process in `work` is found below `work`, but not below a folder `wor`."""
    everyone = processes.list_user_processes()
    assert [one.pid for one in processes.find_processes_below(everyone, tmp_path / "work")] == [
        sleeper.pid
    ]
    assert [one.pid for one in processes.find_processes_below(everyone, tmp_path)] == [sleeper.pid]
    assert processes.find_processes_below(everyone, tmp_path / "wor") == ()


@given(
    st.lists(st.text("/a0.-", max_size=6).map(lambda text: f"/x{text}"), max_size=12),
    st.text("a0.-", max_size=3).map(lambda text: Path(f"/x{text}")),
)
def test_search_in_the_sorted_list_finds_all_processes_below_a_folder(
    folders: list[str], folder: Path
) -> None:
    """The search finds the same processes as a check of each folder, for any names."""
    everyone = sorted(
        (processes.FolderProcess(1, 1, f, False) for f in folders), key=lambda t: t.folder
    )
    inside = [one for one in everyone if f"{one.folder}/".startswith(f"{folder}/")]
    assert sorted(map(str, processes.find_processes_below(everyone, folder))) == sorted(
        map(str, inside)
    )


def test_process_in_a_deleted_folder_is_flagged(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """A process whose folder was deleted is found by the old path and marked as deleted."""
    (tmp_path / "work").rmdir()
    [found] = processes.find_processes_below(processes.list_user_processes(), tmp_path / "work")
    assert (found.pid, found.deleted) == (sleeper.pid, True)


def test_checking_a_lock_does_not_take_it(tmp_path: Path) -> None:
    """The check reports whether another process holds the lock, and does not change it."""
    path = tmp_path / "lock"
    assert is_lock_held(path) is False
    with path.open("w") as stream:
        assert is_lock_held(path) is False
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert is_lock_held(path) is True
        fcntl.flock(stream, fcntl.LOCK_UN)
        assert is_lock_held(path) is False


def test_unreadable_lock_is_unknown(tmp_path: Path) -> None:
    """If the lock file cannot be opened, the check reports unknown, and not free."""
    path = tmp_path / "lock"
    path.symlink_to(path)
    assert is_lock_held(path) is None


def test_tmux_session_is_matched_by_its_whole_name(stage: Stage) -> None:
    """A session whose name only starts with the given name does not match."""
    refused = tmux_sessions.start_session(
        "dpdisp_stage-10", stage.root, ["sleep", "600"], stage.environ
    )
    assert refused is None
    assert tmux_sessions.is_live("dpdisp_stage-10", stage.environ) is True
    assert tmux_sessions.is_live("dpdisp_stage-1", stage.environ) is False


def test_ending_tmux_server_is_asked_again(stage: Stage, tmp_path: Path) -> None:
    """If the tmux server exits during a call, wfctl repeats the call with a new server."""
    real, mark = shutil.which("tmux"), tmp_path / "ended"
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tmux").write_text(
        f"#!/bin/sh\n[ -e {mark} ] || [ $1 != new-session ] || {{ : > {mark}; "
        f"echo 'server exited unexpectedly' >&2; exit 1; }}\nexec {real} \"$@\"\n"
    )
    (folder / "tmux").chmod(0o755)
    environ = {**stage.environ, "PATH": f"{folder}:{stage.environ['PATH']}"}
    assert tmux_sessions.start_session("one", stage.root, ["sleep", "600"], environ) is None
    assert mark.exists()
    assert tmux_sessions.is_live("one", environ) is True


def test_second_tmux_session_with_the_same_name_is_refused(stage: Stage) -> None:
    """wfctl returns the error message of tmux for the duplicate name."""
    tmux_sessions.start_session("one", stage.root, ["sleep", "600"], stage.environ)
    assert "duplicate" in str(
        tmux_sessions.start_session("one", stage.root, ["sleep", "600"], stage.environ)
    )


def test_state_of_a_session_is_unknown_without_tmux(stage: Stage, tmp_path: Path) -> None:
    """If tmux is not installed, wfctl does not report that the session has ended."""
    assert tmux_sessions.is_live("one", {**os.environ, "PATH": str(tmp_path)}) is None
