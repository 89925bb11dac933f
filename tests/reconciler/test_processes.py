"""Processes, locks and sessions as evidence."""

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

from reconciler.host import processes
from reconciler.host.program import is_held
from tests.reconciler.support import Stage, until

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in a folder of its own."""
    (tmp_path / "work").mkdir()
    with subprocess.Popen(SLEEP, cwd=tmp_path / "work") as process:
        yield process
        process.kill()


def test_a_process_is_known_by_its_start_time(sleeper: subprocess.Popen[bytes]) -> None:
    """The same id with another start time, or of another boot, is another process."""
    found = processes.identify(sleeper.pid)
    assert found is not None
    assert found.is_alive()
    assert not replace(found, ticks=found.ticks + 1).is_alive()
    assert not replace(found, boot_id="another").is_alive()


def test_a_zombie_is_dead(sleeper: subprocess.Popen[bytes]) -> None:
    """A process that nobody has reaped does not compute any more."""
    found = processes.identify(sleeper.pid)
    assert found is not None
    sleeper.kill()
    until(lambda: not found.is_alive())
    assert Path(f"/proc/{sleeper.pid}").exists()


def test_a_group_is_told_by_what_it_began_with() -> None:
    """By the very variable, while somebody of it lives; nobody else's group is."""
    environ = {**os.environ, "OURS": "one"}
    with subprocess.Popen(SLEEP, env=environ, start_new_session=True) as process:
        assert processes.group_began_with(process.pid, "OURS=one")
        assert not processes.group_began_with(process.pid, "OURS=on")
        assert not processes.group_began_with(os.getpgrp(), "OURS=one")
        process.kill()
        until(lambda: not processes.group_began_with(process.pid, "OURS=one"))


def test_tenants_are_those_below_a_folder(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """A process is found by the folder it works in, or one above, and not by a like name."""
    everyone = processes.census()
    assert [one.pid for one in processes.below(everyone, tmp_path / "work")] == [sleeper.pid]
    assert [one.pid for one in processes.below(everyone, tmp_path)] == [sleeper.pid]
    assert processes.below(everyone, tmp_path / "wor") == ()


@given(
    st.lists(st.text("/a0.-", max_size=6).map(lambda text: f"/x{text}"), max_size=12),
    st.text("a0.-", max_size=3).map(lambda text: Path(f"/x{text}")),
)
def test_a_sorted_census_finds_who_a_look_at_each_would_find(
    folders: list[str], folder: Path
) -> None:
    """Whatever characters sort around the slash."""
    everyone = sorted((processes.Tenant(1, 1, f, False) for f in folders), key=lambda t: t.folder)
    inside = [one for one in everyone if f"{one.folder}/".startswith(f"{folder}/")]
    assert sorted(map(str, processes.below(everyone, folder))) == sorted(map(str, inside))


def test_a_tenant_of_a_deleted_folder_is_flagged(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """A process whose folder was removed under it is still found, and told apart."""
    (tmp_path / "work").rmdir()
    [found] = processes.below(processes.census(), tmp_path / "work")
    assert (found.pid, found.deleted) == (sleeper.pid, True)


def test_a_held_lock_is_seen_and_not_disturbed(tmp_path: Path) -> None:
    """Looking at a lock tells whether it is held, and takes it from nobody."""
    path = tmp_path / "lock"
    assert is_held(path) is False
    with path.open("w") as stream:
        assert is_held(path) is False
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert is_held(path) is True
        fcntl.flock(stream, fcntl.LOCK_UN)
        assert is_held(path) is False


def test_a_lock_that_cannot_be_looked_at_is_unknown(tmp_path: Path) -> None:
    """An error is no answer, and no answer is not a free lock."""
    path = tmp_path / "lock"
    path.symlink_to(path)
    assert is_held(path) is None


def test_a_session_is_matched_by_its_whole_name(stage: Stage) -> None:
    """A session whose name merely begins alike is another one."""
    refused = processes.start("dpdisp_stage-10", stage.root, ["sleep", "600"], stage.environ)
    assert refused is None
    assert processes.is_live("dpdisp_stage-10", stage.environ) is True
    assert processes.is_live("dpdisp_stage-1", stage.environ) is False


def test_a_server_that_ends_while_it_is_asked_is_asked_again(stage: Stage, tmp_path: Path) -> None:
    """It ends with its last session; the next call starts a server of its own."""
    real, mark = shutil.which("tmux"), tmp_path / "ended"
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tmux").write_text(
        f"#!/bin/sh\n[ -e {mark} ] || [ $1 != new-session ] || {{ : > {mark}; "
        f"echo 'server exited unexpectedly' >&2; exit 1; }}\nexec {real} \"$@\"\n"
    )
    (folder / "tmux").chmod(0o755)
    environ = {**stage.environ, "PATH": f"{folder}:{stage.environ['PATH']}"}
    assert processes.start("one", stage.root, ["sleep", "600"], environ) is None
    assert mark.exists()
    assert processes.is_live("one", environ) is True


def test_a_second_session_of_a_name_is_refused(stage: Stage) -> None:
    """tmux says why it does not start a session twice."""
    processes.start("one", stage.root, ["sleep", "600"], stage.environ)
    assert "duplicate" in str(processes.start("one", stage.root, ["sleep", "600"], stage.environ))


def test_without_tmux_a_session_is_unknown(stage: Stage, tmp_path: Path) -> None:
    """No tmux is no answer to whether a session lives."""
    assert processes.is_live("one", {**os.environ, "PATH": str(tmp_path)}) is None
