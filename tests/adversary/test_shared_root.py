"""A root that two members of a group share, each with a separate user account."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cli.support import HERE, Answer, wfctl, write_plan
from tests.forked import LOGIN
from tests.need import need_programs

pytestmark = [pytest.mark.slow, pytest.mark.root]

FIRST, SECOND, GROUP = 65534, 65532, 65530
COMMAND = "mkdir d; echo side > d/side; echo said; [ -e ok ] && echo 1 > out.txt"
PLAN = {
    "workflow_id": "w-shared",
    "purpose": "Work on it together.",
    "stages": [
        {
            "id": "stage-1",
            "name": "One",
            "outputs": ["stage-1/out.txt"],
            "parameters": {"command": COMMAND},
        },
        {
            "id": "stage-2",
            "name": "Sweep",
            "outputs": ["stage-2/tasks.csv"],
            "parameters": {
                "command": "echo 1 > out",
                "map": {"points": [{"T": 1}, {"T": 2}]},
                "task_outputs": ["out"],
            },
        },
    ],
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that every user can enter, with a home folder for each member."""
    need_programs("setpriv")
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for user in (FIRST, SECOND):
            (folder / str(user)).mkdir()
            os.chown(folder / str(user), user, user)
        write_plan(folder, PLAN)
        yield folder


def make_root(folder: Path, mode: int) -> Path:
    """Create the folder for the first member's root."""
    root = folder / "root"
    root.mkdir()
    os.chown(root, FIRST, GROUP)
    root.chmod(mode)
    return root


def call_as(user: int, folder: Path, *arguments: str) -> Answer:
    """Run wfctl as a member of the group, with a tmux server in the member's home folder."""
    line = [sys.executable, "-c", "from cli.main import main; main()"]
    line += ["--root", str(folder / "root"), *arguments]
    # The member must be able to read the Python interpreter, which may be in the home folder of
    # root.
    reads = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    able = [] if _can_start(user) else reads
    who = ["setpriv", f"--reuid={user}", f"--regid={user}", f"--groups={GROUP}", *able]
    home = str(folder / str(user))
    own = {"HOME": home, "TMUX_TMPDIR": home, "PYTHONPATH": str(HERE)}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run(
        [*who, *line],
        env={**environ, **own},
        cwd=folder,
        umask=0o022,
        capture_output=True,
        text=True,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def _can_start(user: int) -> bool:
    # Start the program with `env`, because setpriv itself still has the rights of root at that
    # moment.
    line = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "env"]
    done = subprocess.run([*line, sys.executable, "-c", ""], check=False, capture_output=True)
    return done.returncode == 0


@pytest.mark.long
def test_both_group_members_can_continue_the_workflow(folder: Path) -> None:
    """Both members can write after each other; only recorded environments stay private."""
    root = make_root(folder, 0o2775)
    plan = str(folder / "plan.json")
    assert call_as(FIRST, folder, "init", plan, "--consent", "trust").code == 0
    answer = call_as(FIRST, folder, "run")
    assert answer.code == 6, answer
    assert "said" in call_as(SECOND, folder, "logs", "stage-1").out
    (root / "stage-1/ok").write_text("")
    for arguments in (["stage", "retry", "stage-1", "--fix", "ok is there"], ["run"]):
        answer = call_as(SECOND, folder, *arguments)
        assert answer.code == 0, answer
    answer = call_as(FIRST, folder, "rerun", "stage-2", "--reason", "once more")
    assert answer.code == 0, answer
    answer = call_as(FIRST, folder, "run")
    assert answer.code == 0, answer
    closed = set()
    for path in root.rglob("*"):
        found = path.lstat()
        mode = 0o070 if path.is_dir() else 0o060
        is_open = found.st_gid == GROUP and found.st_mode & mode == mode
        if not is_open and found.st_uid != 0:  # the test itself runs as root
            closed.add(path.name)
    # wfctl replaces the wrapper by a rename and never writes it in place, so the file needs no
    # write permission for the group.
    assert closed == {"environment", "environment.key", "dpdisp-run.sh"}
    assert all(not one.stat().st_mode & 0o077 for one in root.rglob("environment"))


def test_unshared_root_names_its_owner_and_how_to_share_it(folder: Path) -> None:
    """After the owner runs the printed commands, the second member can write."""
    root = make_root(folder, 0o755)
    assert call_as(FIRST, folder, "init", str(folder / "plan.json"), "--consent", "trust").code == 0
    # Change the user after the fork, so that file permissions apply to the process from then on.
    home = str(folder / str(SECOND))
    environ = {LOGIN: str(SECOND), "XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home}
    answer = wfctl("--root", str(root), "note", "kept out", environ=environ)
    assert answer.code == 1
    assert f"The root {root} belongs to nobody, who can share it" in answer.err
    commands = answer.err.split("`")[1].replace("GROUP", str(SECOND))
    who = ["setpriv", f"--reuid={FIRST}", f"--regid={FIRST}", f"--groups={SECOND}"]
    subprocess.run([*who, "bash", "-c", commands], check=True)
    answer = wfctl("--root", str(root), "note", "let in", environ=environ)
    assert answer.code == 0, answer
