"""Links that wfctl cannot resolve: circular links, and links into an inaccessible folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.cli.support import Place, wfctl, write_plan
from tests.cli.terminal import answered, answered_as
from tests.forked import LOGIN
from tests.sessions.support import stage, statuses, workflow

pytestmark = pytest.mark.slow

NOBODY = 65534
MAP: dict[str, Any] = {"map": {"grid": {"T": [1, 2]}}, "task_outputs": ["out.txt"]}
PLAN: dict[str, Any] = {
    "workflow_id": "w-2026-05-04",
    "purpose": "See it run.",
    "stages": [stage(1, parameters={"verify": "true"})],
}


@pytest.mark.parametrize("more", [{}, MAP], ids=["stage", "task"])
@pytest.mark.parametrize("folder", ["stage-1", "."], ids=["stage folder", "root"])
def test_circular_link_stops_no_verification(
    folder: str, more: dict[str, Any], tmp_path: Path
) -> None:
    """`stage verify` succeeds with a circular link in the stage folder or in the root."""
    command = "ln -s self self; true" if folder == "stage-1" else "true"
    first = stage(1, command, parameters={"verify": "true", **more})
    if more:
        first["outputs"] = ["stage-1/tasks.csv"]
    place = workflow(tmp_path, first, stage(2, after=[1]))
    (place.path / "stage-1").mkdir(exist_ok=True)
    (place.path / folder / "self").symlink_to("self")
    shown = place.json("run")
    assert (shown.code, shown.data["exit_reason"]) == (0, "completed"), shown
    assert place.json("stage", "verify", "stage-1").code == 0


@pytest.mark.parametrize("words", [(), ("--or-fail",)])
def test_stage_is_completed_next_to_a_circular_link(words: tuple[str, ...], tmp_path: Path) -> None:
    """`stage complete` reads the stage folder to find modules of the check."""
    place = workflow(tmp_path, stage(1, "ln -s self self", parameters={"verify": "true"}))
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1", *words)
    assert statuses(place) == ["completed"]


def test_plan_is_approved_next_to_a_circular_link(tmp_path: Path) -> None:
    """`init` at a terminal records the approval despite a circular link in the folder."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "self").symlink_to("self")
    plan = str(write_plan(tmp_path, PLAN))
    code, shown = answered("y\n", "--root", str(root), "init", plan)
    assert code == 0, shown
    assert "amendment.approved" in Place(root).types()


@pytest.mark.parametrize(
    ("command", "check", "problem"),
    [
        ("mkdir out; echo 1 > out/x.txt; ln -s self out/self", "can be read", "self (Too many"),
        ("mkdir out; ln -s self out/self", "can be read", "self (Too many"),
        ("ln -s out out", "exists", "Too many"),
    ],
    ids=["in the output", "alone in the output", "the output"],
)
def test_output_with_a_circular_link_has_a_finding(
    command: str, check: str, problem: str, tmp_path: Path
) -> None:
    """The stage fails, `stage verify` names the link, and another stage is completed."""
    first = stage(1, outputs=["stage-1/out"], parameters={"command": command})
    place = workflow(tmp_path, first, stage(2))
    assert place.json("run").code == 6
    assert statuses(place) == ["failed", "completed"]
    answer = place.json("stage", "verify", "stage-1")
    assert answer.code == 7, answer
    text = place.call("stage", "verify", "stage-1").out
    assert f"FAILED  stage-1/out {check}" in text
    assert f"cannot be read: {problem} levels of symbolic links" in text


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("ln -s out out", ""),
        ("ln -s gone out", ""),
        (
            "mkdir out; echo 1 > out/x.txt; ln -s self out/self",
            "out cannot be read: self (Too many",
        ),
    ],
    ids=["the output", "to nothing", "in the output"],
)
def test_task_output_with_an_unresolvable_link_fails_the_task(
    command: str, why: str, tmp_path: Path
) -> None:
    """The task table names the link as the reason, and another stage completes."""
    parameters = {**MAP, "command": command, "task_outputs": ["out"]}
    first = stage(1, outputs=["stage-1/tasks.csv"], parameters=parameters)
    place = workflow(tmp_path, first, stage(2))
    assert place.json("run").code == 6
    assert statuses(place) == ["failed", "completed"]
    tasks = place.done("tasks", "stage-1")["tasks"]
    assert {one["state"] for one in tasks} == {"failed"}
    assert all(one["why"].startswith(why) for one in tasks), tasks


@pytest.fixture
def shared() -> Iterator[Path]:
    """Yield a folder of an ordinary user, next to a folder that the user cannot enter."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for one in ("root", "home"):
            (folder / one).mkdir()
            os.chown(folder / one, NOBODY, NOBODY)
        (folder / "closed/data").mkdir(parents=True)
        (folder / "closed").chmod(0o700)
        (folder / "root/data").symlink_to("../closed/data")
        write_plan(folder, PLAN)
        yield folder


@pytest.mark.root
def test_link_into_an_inaccessible_folder_stops_no_workflow(shared: Path) -> None:
    """The user approves the plan at a terminal, and `run` completes it."""
    home, root = str(shared / "home"), str(shared / "root")
    environ = {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home}
    own = {**environ, LOGIN: str(NOBODY)}
    made = wfctl("--root", root, "init", str(shared / "plan.json"), cwd=shared, environ=own)
    assert made.code == 0, made
    line = ("--root", root, "--actor", "user:pi", "amend", "approve", "plan")
    code, shown = answered_as(NOBODY, environ, "y\n", *line)
    assert code == 0, shown
    for command in ("run", "status", "stage verify stage-1", "audit bypasses", "report -"):
        answer = wfctl("--root", root, *command.split(), cwd=shared, environ=own)
        assert answer.code == 0, answer
