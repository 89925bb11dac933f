"""The files that a hand-over takes along: put where they were, as the log says."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import pytest

from service.handover.carried import MOST_FILES
from tests.cli.support import Place, call, tree, wfctl, write_plan
from tests.exports.support import handed_over, taken_over

PLOT = "film/plot.svg"
STAGES: list[dict[str, Any]] = [
    {
        "id": "film",
        "name": "Film",
        "inputs": ["data/in.txt", "scripts/run.sh"],
        "outputs": ["film/out.txt", "film/frames", PLOT],
        "parameters": {
            "command": "../scripts/run.sh && cat ../data/in.txt > out.txt && mkdir frames "
            "&& echo 1 > frames/one && echo '<svg/>' > plot.svg"
        },
    },
    {
        "id": "stage-1",
        "name": "Sweep",
        "depends_on": ["film"],
        "outputs": ["stage-1/tasks.csv"],
        "parameters": {
            "command": "echo $WFCTL_PARAM_T > out.txt",
            "map": {"grid": {"T": [1, 2]}},
            "task_outputs": ["out.txt"],
        },
    },
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Make a workflow of a plain stage and a sweep, and run it to its end."""
    folder = tmp_path_factory.mktemp("ran")
    place = Place(folder / "root")
    for name in ("data", "scripts"):
        (place.path / name).mkdir(parents=True)
    (place.path / "data/in.txt").write_text("in\n")
    script = place.path / "scripts/run.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    script.chmod(0o755)
    (place.path / "init.sh").write_text("true\n")
    plan = {"workflow_id": "w-2026-11-24", "purpose": "See.", "stages": STAGES}
    place.done("init", str(write_plan(folder, plan)), "--consent", "trust")
    place.done("run")
    return place


@pytest.mark.slow
def test_a_root_from_an_archive_has_what_the_log_tells_of(ran: Place, tmp_path: Path) -> None:
    """Results of a stage and of each task, inputs and scripts; nothing is missing or changed."""
    made = taken_over(handed_over(ran, tmp_path), tmp_path / "made")
    names = [
        "data/in.txt", "scripts/run.sh", "film/out.txt", "film/frames/one", PLOT, "init.sh",
        "stage-1/tasks.csv", "stage-1/tasks/T=1/out.txt", "stage-1/tasks/T=2/out.txt",
    ]  # fmt: skip
    for name in names:
        assert (made.path / name).read_bytes() == (ran.path / name).read_bytes()
    assert (made.path / "scripts/run.sh").stat().st_mode & stat.S_IXUSR
    assert not (made.path / "data/in.txt").stat().st_mode & stat.S_IXUSR
    assert made.done("verify", "--deep")["found"] == []
    assert made.call("replay", "--check").code == 0
    assert made.done("status")["stages"][1]["status"] == "completed"
    assert made.call("export", "report").out == ran.call("export", "report").out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "there", "missing"),
    [
        ("none", [], ["film/out.txt", "data/in.txt", "scripts/run.sh", PLOT]),
        ("outputs", ["film/out.txt", PLOT], ["data/in.txt", "scripts/run.sh"]),
        ("figures", [PLOT], ["film/out.txt", "data/in.txt"]),
        ("inputs", ["data/in.txt"], ["film/out.txt", PLOT]),
        ("scripts", ["scripts/run.sh", "init.sh"], ["film/out.txt", PLOT]),
    ],
)
def test_an_archive_takes_along_what_is_asked_for(
    ran: Place, tmp_path: Path, kinds: str, there: list[str], missing: list[str]
) -> None:
    """By kinds, and with `none` the log alone."""
    file = tmp_path / "archive.zip"
    ran.done("export", "archive", str(file), "--with", kinds)
    made = taken_over(file, tmp_path / "made")
    assert all((made.path / name).exists() for name in there)
    assert not any((made.path / name).exists() for name in missing)


def small(folder: Path, **stage: Any) -> Place:
    """Make a workflow of one stage with an output, and run it."""
    place = Place(folder / "root")
    place.path.mkdir()
    for name in stage.get("inputs", []):
        with (place.path / name).open("wb") as file:
            file.truncate(100_000_001 if name == "big" else 1)
    own = {"outputs": ["film/out.txt"], "parameters": {"command": "echo hi > out.txt"}}
    plan = {"workflow_id": "w", "stages": [{"id": "film", "name": "Film", **own, **stage}]}
    place.done("init", str(write_plan(folder, plan)), "--consent", "trust")
    place.done("run")
    return place


@pytest.mark.slow
def test_a_file_that_is_not_as_the_log_says_is_told_and_left_out(tmp_path: Path) -> None:
    """It does not go along under the name of the result, and who gets the archive is told too."""
    place = small(tmp_path)
    (place.path / "film/out.txt").write_text("another\n")
    told = place.done("export", "archive", str(tmp_path / "archive.zip"))
    assert told["taken"] == {}
    assert told["left_out"][0] == {
        "path": "film/out.txt", "bytes": 0, "why": "it is not as the log says",
    }  # fmt: skip
    line = ["import", str(tmp_path / "archive.zip"), "--into", str(tmp_path / "made")]
    assert "not in the archive: film/out.txt" in call(*line).out


@pytest.mark.slow
def test_the_largest_files_stay_behind_unless_they_are_asked_for(tmp_path: Path) -> None:
    """Each is named with its size; asked for by kind, all go along."""
    place = small(tmp_path, inputs=["big", "in.txt"])
    told = place.done("export", "archive", str(tmp_path / "archive.zip"))
    assert set(told["taken"]) == {"film/out.txt", "in.txt"}
    assert [(one["path"], one["bytes"]) for one in told["left_out"]] == [("big", 100_000_001)]
    whole = tmp_path / "whole.zip"
    assert "big" in place.done("export", "archive", str(whole), "--with", "inputs")["taken"]
    assert (taken_over(whole, tmp_path / "made").path / "big").stat().st_size == 100_000_001


def test_a_machine_file_is_never_taken_along(tmp_path: Path) -> None:
    """It may hold what lets one in."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    (place.path / "hpc.json").write_text("{}")
    profiles = {"hpc": {"type": "local", "config_path": "./hpc.json"}}
    plan = {"workflow_id": "w", "default_backend": "hpc", "backend_profiles": profiles}
    stages = [{"id": "film", "name": "Film"}]
    place.done("init", str(write_plan(tmp_path, {**plan, "stages": stages})), "--consent", "trust")
    assert "hpc.json" not in place.done("export", "archive", str(tmp_path / "a.zip"))["taken"]


@pytest.mark.slow
def test_a_file_that_is_there_is_never_written_over(ran: Place, tmp_path: Path) -> None:
    """One that differs stays, and is told."""
    file = handed_over(ran, tmp_path)
    (tmp_path / "made/film").mkdir(parents=True)
    (tmp_path / "made/film/out.txt").write_text("mine\n")
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "-o", "json")
    assert answer.data["kept"] == ["film/out.txt"]
    assert (tmp_path / "made/film/out.txt").read_text() == "mine\n"


def test_what_the_artifacts_of_a_machine_name_goes_along(tmp_path: Path) -> None:
    """As it was when it was recorded."""
    place = Place(tmp_path / "root")
    (place.path / "docs").mkdir(parents=True)
    (place.path / "docs/design.md").write_text("As it is.\n")
    place.done("machine", "init", "job1", "--type", "feature")
    place.done("machine", "update", "job1", "artifacts.design=docs/design.md")
    made = taken_over(handed_over(place, tmp_path), tmp_path / "made")
    assert (made.path / "docs/design.md").read_text() == "As it is.\n"


@pytest.mark.slow
def test_an_archive_of_before_is_taken_as_it_was(ran: Place, tmp_path: Path) -> None:
    """It has the log alone, and its manifest says nothing of files."""
    file, old = tmp_path / "archive.zip", tmp_path / "old.zip"
    ran.done("export", "archive", str(file), "--with", "none")
    with ZipFile(file) as source, ZipFile(old, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                del manifest["left_out"]
                content = json.dumps(manifest).encode()
            archive.writestr(name, content)
    assert taken_over(old, tmp_path / "made").done("events") == ran.done("events")


def forged(file: Path, more: dict[str, bytes], mode: int = 0o644) -> Path:
    """Write an archive once more with files added or exchanged; the manifest agrees with them."""
    target = file.with_name("forged.zip")
    with ZipFile(file) as source:
        files = {name: source.read(name) for name in source.namelist()}
    manifest = json.loads(files.pop("manifest.json"))
    for name, content in more.items():
        manifest["files"][name] = {
            "bytes": len(content), "sha256": sha256(content).hexdigest(),
        }  # fmt: skip
    with ZipFile(target, "w") as archive:
        for name, content in {**files, **more}.items():
            info = ZipInfo(name)
            info.external_attr = (mode if name in more else 0o644) << 16
            archive.writestr(info, content)
        archive.writestr("manifest.json", json.dumps(manifest))
    return target


def lying(file: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Write an archive once more with another entry for its result in the manifest."""
    target = file.with_name("forged.zip")
    with ZipFile(file) as source, ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                change(manifest["files"]["files/film/out.txt"])
                content = json.dumps(manifest).encode()
            archive.writestr(name, content)
    return target


HOSTILE: dict[str, Callable[[Path], Path]] = {
    "a path that leads up": lambda file: forged(file, {"files/../escaped": b"x"}),
    "a path that leads up inside": lambda file: forged(file, {"files/a/../../escaped": b"x"}),
    "an absolute path": lambda file: forged(file, {"files//tmp/escaped": b"x"}),
    "a line end": lambda file: forged(file, {"files/a\nb": b"x"}),
    "our folder": lambda file: forged(file, {"files/.wfctl/config.toml": b"x"}),
    "a hook": lambda file: forged(file, {"files/sub/.git/hooks/post-commit": b"x"}),
    "our state file": lambda file: forged(file, {"files/workflow-state.json": b"{}"}),
    "our log file": lambda file: forged(file, {"files/progress.log": b""}),
    "a link": lambda file: forged(file, {"files/link": b"/etc/passwd"}, 0o120777),
    "a file that is a folder": lambda file: forged(file, {"files/a": b"x", "files/a/b": b"x"}),
    "another result": lambda file: forged(file, {"files/film/out.txt": b"better\n"}),
    "a wrong digest": lambda file: lying(file, lambda one: one.update(sha256="0" * 64)),
    "more bytes than told": lambda file: lying(file, lambda one: one.update(bytes=1)),
    "too many files": lambda file: forged(
        file, {f"files/n{number}": b"" for number in range(MOST_FILES)}
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_archive_makes_nothing(ran: Place, tmp_path: Path, what: str) -> None:
    """Neither the root nor anything beside it."""
    file = HOSTILE[what](handed_over(ran, tmp_path))
    before = tree(tmp_path)
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "-o", "json")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive"), answer
    answer = wfctl("serve", str(file), environ={"TMPDIR": str(tmp_path)})
    assert (answer.code, "Nothing was made of it" in answer.err) == (1, True), answer
    assert tree(tmp_path) == before


@pytest.mark.slow
def test_no_link_that_is_there_leads_a_file_out_of_the_root(ran: Place, tmp_path: Path) -> None:
    """A folder of the new root that leads elsewhere gets nothing."""
    file = handed_over(ran, tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "made").mkdir()
    (tmp_path / "made/film").symlink_to(tmp_path / "outside")
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "-o", "json")
    assert answer.error["code"] == "outside_root"
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.slow
def test_the_smallest_files_go_along_as_far_as_they_fit(tmp_path: Path) -> None:
    """Together, and not each for itself."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    names = ["a", "b", "c"]
    stage = {"id": "film", "name": "Film", "inputs": names}
    place.done(
        "init",
        str(write_plan(tmp_path, {"workflow_id": "w", "stages": [stage]})),
        "--consent",
        "trust",
    )
    for number, name in enumerate(names):
        with (place.path / name).open("wb") as file:
            file.truncate(40_000_000 + number)
    told = place.done("export", "archive", str(tmp_path / "archive.zip"))
    assert set(told["taken"]) == {"a", "b"}
    assert [(one["path"], one["bytes"]) for one in told["left_out"]] == [("c", 40_000_002)]
