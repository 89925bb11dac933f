"""An attempt records the git commit of its files, and whether the files match the commit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place
from tests.keeping.support import made, stage
from tests.keeping.test_by_hand import launch, let_go
from tests.keeping.test_by_hand import place as by_hand
from tests.need import need_programs

pytestmark = pytest.mark.slow
SCRIPT = "print('hi')\n"
__all__ = ["by_hand"]


def git(place: Place, *words: str) -> str:
    """Run git in the root with a fixed user name."""
    need_programs("git")
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    line = ["git", "-C", str(place.path), *who, *words]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Create a workflow whose stage runs a script, outside any git repository."""
    one = stage(1, "python3 ../run.py > a.txt", inputs=["run.py"], outputs=["stage-1/a.txt"])
    found = made(tmp_path, one, consent="trust")
    (found.path / "run.py").write_text(SCRIPT)
    return found


def committed(place: Place, *files: str) -> str:
    """Create a git repository with the given files, and return the id of its commit."""
    git(place, "init", "-q")
    git(place, "add", "-f", *files)
    git(place, "commit", "-qm", "one")
    return git(place, "rev-parse", "HEAD")


def code(place: Place) -> Any:
    """Run the workflow and return the commit data of its newest attempt."""
    assert place.call("run").code == 0
    return place.done("show", "stage-1")["attempts"][-1]["code"]


@pytest.mark.long
def test_attempt_records_the_commit_of_its_files(place: Place) -> None:
    """`show`, `report` and `compare` print the commit and the files that differ from it."""
    commit = committed(place, ".")  # The commit includes the state that wfctl writes.
    assert code(place) == {"commit": commit, "dirty": False, "files": []}
    assert f"commit {commit}\n" in place.call("show", "stage-1").out
    assert commit in place.call("report").out
    (place.path / "run.py").write_text(SCRIPT + SCRIPT)
    place.done("rerun", "stage-1", "--reason", "more")
    assert code(place) == {"commit": commit, "dirty": True, "files": ["run.py"]}
    rows = place.done("compare", "stage-1", "--all")["rows"]
    found = {one["name"]: [*one["values"].values()] for one in rows if one["kind"] == "code"}
    assert found == {"commit": [commit, commit], "not committed": ["nothing", "run.py"]}


@pytest.mark.long
def test_uncommitted_files_make_an_attempt_dirty(place: Place) -> None:
    """An untracked script or a change of any tracked file makes the attempt `dirty`."""
    (place.path / "lib.txt").write_text("a\n")
    commit = committed(place, "lib.txt")
    assert code(place) == {"commit": commit, "dirty": True, "files": ["run.py"]}
    git(place, "add", "run.py")
    git(place, "commit", "-qm", "two")
    (place.path / "lib.txt").write_text("b\n")
    place.done("rerun", "stage-1", "--reason", "more")
    found = code(place)
    assert (found["commit"] != commit, found["dirty"], found["files"]) == (True, True, [])
    shown = place.call("show", "stage-1").out
    assert "but with local changes: other files of the repository" in shown


def test_paths_are_relative_to_the_root_not_the_repository(place: Place) -> None:
    """If the root is a subfolder of the repository, recorded paths start at the root."""
    above = Place(place.path.parent)
    commit = committed(above, "root/run.py")
    (place.path / "run.py").write_text(SCRIPT + SCRIPT)
    assert code(place) == {"commit": commit, "dirty": True, "files": ["run.py"]}


def _no_repository(place: Place, _folder: Path) -> None:
    assert not (place.path / ".git").exists()


def _no_commit(place: Place, _folder: Path) -> None:
    git(place, "init", "-q")


def _broken(place: Place, _folder: Path) -> None:
    committed(place, "run.py")
    (place.path / ".git/index").write_bytes(b"no index")


def _failing(place: Place, folder: Path) -> None:
    committed(place, "run.py")
    _program(folder / "bin/git", "exit 3")


def _slow(place: Place, folder: Path) -> None:
    committed(place, "run.py")
    _program(folder / "bin/git", "exec sleep 60")


def _program(path: Path, line: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.mark.few(2)
@pytest.mark.parametrize("lay", [_no_repository, _no_commit, _broken, _slow, _failing])
def test_attempt_starts_without_a_commit(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lay: Callable[[Place, Path], None],
) -> None:
    """If git has no repository or commit, fails or hangs, the attempt records no commit."""
    lay(place, tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert code(place) is None
    assert "commit" not in place.call("show", "stage-1").out


def test_attempt_starts_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If git is not installed, the attempt runs and records no commit."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for entry in os.environ["PATH"].split(":"):
        for one in Path(entry).glob("*"):
            if one.name != "git" and not (folder / one.name).is_symlink():
                (folder / one.name).symlink_to(one)
    place = made(tmp_path, stage(1, "echo > a.txt", outputs=["stage-1/a.txt"]), consent="trust")
    monkeypatch.setenv("PATH", str(folder))
    assert code(place) is None


HOSTILE = {
    "monitor": [("core.fsmonitor", "{evil}")],
    "filter": [("filter.evil.clean", "{evil}"), ("filter.evil.required", "true")],
    "process": [("filter.evil.process", "{evil}"), ("filter.evil.required", "true")],
    "named": [("filter.evil=a.clean", "{evil}")],
}


@pytest.mark.parametrize("way", HOSTILE)
def test_programs_configured_in_the_repository_are_not_run(
    place: Place, tmp_path: Path, way: str
) -> None:
    """wfctl runs no file monitor and no content filter that the git configuration names."""
    committed(place, "run.py")
    evil, trace = tmp_path / "evil", tmp_path / "trace"
    _program(evil, f"echo ran >> {trace}")
    for name, value in HOSTILE[way]:
        git(place, "config", name, value.format(evil=evil))
    driver = "evil=a" if way == "named" else "evil"
    (place.path / ".git/info").mkdir(exist_ok=True)
    (place.path / ".git/info/attributes").write_text(f"run.py filter={driver}\n")
    # The size of the file must not change: only then does git read the content and run the filter.
    (place.path / "run.py").write_text(SCRIPT.replace("hi", "ho"))
    subprocess.run(["git", "-C", str(place.path), "status"], capture_output=True, check=False)
    assert trace.exists()  # The attack works on git itself.
    trace.unlink()
    found = code(place)
    assert not trace.exists()
    assert found is None if way == "named" else found["files"] == ["run.py"]


def test_job_launched_by_hand_records_its_commit(by_hand: Place) -> None:
    """wfctl records the commit that is checked out when wfctl takes over the job."""
    (by_hand.path / "x").touch()
    commit = committed(by_hand, "x")
    launch(by_hand)
    let_go(by_hand)
    assert code(by_hand) == {"commit": commit, "dirty": False, "files": []}
