"""A link that cannot be copied into a job's folder stops only the stage of this job."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place
from tests.sessions.support import stage, statuses, workflow

pytestmark = pytest.mark.slow

_CHAIN = "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do"
#: For each kind of link: the command that creates it, and the links that the message may name.
LINKS = {
    "to its folder": ("ln -s . a; ln -s . b", {"a", "b"}),
    "to a folder above": ("mkdir sub; ln -s ../.. sub/up", {"sub/up"}),
    "to each other": ("mkdir c d; ln -s ../d c/x; ln -s ../c d/y", {"d/y"}),
    "to itself": ("ln -s self self", {"self"}),
    "to nothing": ("ln -s gone link", {"link"}),
    "to many folders": (
        f"{_CHAIN} mkdir f$n; ln -s ../f$((n+1)) f$n/a; ln -s ../f$((n+1)) f$n/b; done; mkdir f21",
        {f"f{n}/{name}" for n in range(1, 21) for name in "ab"},
    ),
}


def forwarding(tmp_path: Path, where: str, kind: str, links: str, command: str) -> Place:
    """Return a workflow in which stage-2 receives a folder with links, and stage-3 does not."""
    make = f"mkdir out; echo 1 > out/x.txt; cd out; {links}; cd .."
    is_output = where == "output"
    first = stage(1)
    if is_output:
        first |= {"outputs": ["stage-1/out"], "parameters": {"command": make}}
    parameters: dict[str, Any] = {"command": command}
    if where == "stage":
        parameters["forward_files"] = ["out"]
    inputs = {"output": ["stage-1/out"], "root": ["out"], "stage": []}[where]
    second = {**stage(2, after=[1], inputs=inputs), "parameters": parameters}
    if kind == "sweep":
        second["outputs"] = ["stage-2/tasks.csv"]
        parameters |= {"map": {"grid": {"T": [1, 2]}}, "task_outputs": ["out.txt"]}
    place = workflow(tmp_path, first, second, stage(3))
    if not is_output:
        folder = place.path / ("stage-2" if where == "stage" else "")
        folder.mkdir(exist_ok=True)
        subprocess.run(["bash", "-c", make], cwd=folder, check=True)
    return place


def folder_of(where: str) -> str:
    """Return the path, below the root, of the folder that stage-2 receives."""
    return {"output": "stage-1/out", "root": "out", "stage": "stage-2/out"}[where]


def check_refusal(place: Place, where: str, names: set[str]) -> str:
    """Run the workflow, check that only stage-2 is refused, and return the named link."""
    shown = place.json("run")
    assert (shown.code, statuses(place)) == (6, ["completed", "failed", "completed"]), shown
    (failed,) = place.done("events", "--type", "stage.failed")
    error = failed["data"]["error"]
    started = place.done("events", "--type", "attempt.started")
    assert "stage-2" not in {one["data"]["stage"] for one in started}
    assert not list(place.path.glob("stage-2/.attempts/*/work"))
    link: str = error.split()[2]
    assert link.removeprefix(f"{folder_of(where)}/") in names, error
    assert error.startswith("the link "), error
    assert "remove the link" in error, error
    assert shown.data["blocked"][0]["stage"] == "stage-2"
    return link


@pytest.mark.parametrize("kind", ["stage", "sweep"])
@pytest.mark.parametrize("where", ["output", "root", "stage"])
def test_link_to_its_own_folder_stops_only_its_stage(where: str, kind: str, tmp_path: Path) -> None:
    """No attempt starts. After the link is removed, a retry completes the stage."""
    links, names = "ln -s . latest", {"latest"}
    place = forwarding(tmp_path, where, kind, links, "echo hi > out.txt")
    link = check_refusal(place, where, names)
    (place.path / link).unlink()
    place.done("stage", "retry", "stage-2", "--fix", "removed the link")
    assert place.json("run").data["exit_reason"] == "completed"


@pytest.mark.parametrize("kind", ["stage", pytest.param("sweep", marks=pytest.mark.long)])
@pytest.mark.parametrize("links", LINKS)
def test_link_that_cannot_be_copied_is_named(links: str, kind: str, tmp_path: Path) -> None:
    """The message names circular links, dangling links and links that multiply folders."""
    command, names = LINKS[links]
    place = forwarding(tmp_path, "root", kind, command, "echo hi > out.txt")
    check_refusal(place, "root", names)


@pytest.mark.parametrize("where", ["output", "root", "stage"])
def test_links_to_files_and_other_folders_are_copied(where: str, tmp_path: Path) -> None:
    """The job reads their targets, also through a link to another link."""
    links = "mkdir runs all; echo 2 > runs/y.txt; ln -s x.txt z.txt; ln -s runs latest"
    links += "; ln -s ../runs all/1; ln -s ../latest all/2"
    at = {"output": "../stage-1/out", "root": "../out", "stage": "out"}[where]
    command = f"cat {at}/z.txt {at}/latest/y.txt {at}/all/1/y.txt {at}/all/2/y.txt > out.txt"
    place = forwarding(tmp_path, where, "stage", links, command)
    assert place.json("run").data["exit_reason"] == "completed"
    assert (place.path / "stage-2/out.txt").read_text() == "1\n2\n2\n2\n"


def test_link_to_the_folder_of_the_job_is_refused(tmp_path: Path) -> None:
    """The message names the link, because a copy of the folder would contain itself."""
    place = forwarding(tmp_path, "root", "stage", "ln -s ../stage-2 job", "echo hi > out.txt")
    (place.path / "stage-2").mkdir()
    check_refusal(place, "root", {"job"})


def test_dry_run_names_the_link(tmp_path: Path) -> None:
    """`dispatch --dry-run` raises the error and writes nothing."""
    place = workflow(tmp_path, stage(1, inputs=["out"]))
    (place.path / "out").mkdir()
    (place.path / "out/x.txt").write_text("1\n")
    (place.path / "out/latest").symlink_to(".")
    answer = place.json("dispatch", "stage-1", "--dry-run")
    assert (answer.code, answer.error["code"]) == (1, "unusable_link"), answer
    assert answer.error["data"] == {"link": "out/latest"}
