"""An attempt records the commit of git that its files are of, and whether they are as it says."""

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
    """Run git in the root as its owner does."""
    need_programs("git")
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    line = ["git", "-C", str(place.path), *who, *words]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workflow whose stage runs a script, in no repository yet."""
    one = stage(1, "python3 ../run.py > a.txt", inputs=["run.py"], outputs=["stage-1/a.txt"])
    found = made(tmp_path, one, consent="trust")
    (found.path / "run.py").write_text(SCRIPT)
    return found


def committed(place: Place, *files: str) -> str:
    """Put files under version control; return the commit."""
    git(place, "init", "-q")
    git(place, "add", "-f", *files)
    git(place, "commit", "-qm", "one")
    return git(place, "rev-parse", "HEAD")


def code(place: Place) -> Any:
    """Return what the newest attempt records, once it has run."""
    assert place.call("run").code == 0
    return place.done("show", "stage-1")["attempts"][-1]["code"]


def test_an_attempt_of_committed_files_names_their_commit(place: Place) -> None:
    """The report, `show` and `compare` tell it."""
    commit = committed(place, ".")  # the state that wfctl writes is of the commit too
    assert code(place) == {"commit": commit, "dirty": False, "files": []}
    assert f"commit {commit}\n" in place.call("show", "stage-1").out
    assert commit in place.call("report").out
    (place.path / "run.py").write_text(SCRIPT + SCRIPT)
    place.done("rerun", "stage-1", "--reason", "more")
    assert code(place) == {"commit": commit, "dirty": True, "files": ["run.py"]}
    rows = place.done("compare", "stage-1", "--all")["rows"]
    found = {one["name"]: [*one["values"].values()] for one in rows if one["kind"] == "code"}
    assert found == {"commit": [commit, commit], "not committed": ["nothing", "run.py"]}


def test_what_the_commit_does_not_hold_makes_an_attempt_dirty(place: Place) -> None:
    """A script that nobody added; another file that differs, which the attempt does not name."""
    (place.path / "lib.txt").write_text("a\n")
    commit = committed(place, "lib.txt")
    assert code(place) == {"commit": commit, "dirty": True, "files": ["run.py"]}
    git(place, "add", "run.py")
    git(place, "commit", "-qm", "two")
    (place.path / "lib.txt").write_text("b\n")
    place.done("rerun", "stage-1", "--reason", "more")
    found = code(place)
    assert (found["commit"] != commit, found["dirty"], found["files"]) == (True, True, [])
    assert "not as it is there: other files of the repository" in place.call("show", "stage-1").out


def test_a_root_below_the_top_of_its_repository_has_paths_of_its_own(place: Place) -> None:
    """As all paths of the log are."""
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


@pytest.mark.parametrize("lay", [_no_repository, _no_commit, _broken, _failing, _slow])
def test_an_attempt_starts_where_git_names_no_commit(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lay: Callable[[Place, Path], None],
) -> None:
    """No repository, one without a commit, a broken one, a git that fails or does not answer."""
    lay(place, tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert code(place) is None
    assert "commit" not in place.call("show", "stage-1").out


def test_an_attempt_starts_where_there_is_no_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else is on the PATH."""
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
def test_no_program_of_the_repository_is_run_at_a_start(
    place: Place, tmp_path: Path, way: str
) -> None:
    """Neither what watches its files nor what filters their content."""
    committed(place, "run.py")
    evil, trace = tmp_path / "evil", tmp_path / "trace"
    _program(evil, f"echo ran >> {trace}")
    for name, value in HOSTILE[way]:
        git(place, "config", name, value.format(evil=evil))
    driver = "evil=a" if way == "named" else "evil"
    (place.path / ".git/info").mkdir(exist_ok=True)
    (place.path / ".git/info/attributes").write_text(f"run.py filter={driver}\n")
    # Git looks into a file that is as long as before.
    (place.path / "run.py").write_text(SCRIPT.replace("hi", "ho"))
    subprocess.run(["git", "-C", str(place.path), "status"], capture_output=True, check=False)
    assert trace.exists()  # the attack works on git itself
    trace.unlink()
    found = code(place)
    assert not trace.exists()
    assert found is None if way == "named" else found["files"] == ["run.py"]


def test_a_job_that_was_launched_by_hand_names_its_commit(by_hand: Place) -> None:
    """As it was when the job was taken over."""
    (by_hand.path / "x").touch()
    commit = committed(by_hand, "x")
    launch(by_hand)
    let_go(by_hand)
    assert code(by_hand) == {"commit": commit, "dirty": False, "files": []}
