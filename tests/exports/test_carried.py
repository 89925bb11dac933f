"""Files of the workflow in an archive: the import restores them at their paths."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import pytest

from extensions.handover.archive_files import MOST_FILES
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
    """Create a workflow of a plain stage and a sweep, and run it to its end."""
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
def test_imported_root_has_all_recorded_files(ran: Place, tmp_path: Path) -> None:
    """Results, inputs and scripts have the same content, and `verify --deep` finds no change."""
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
def test_with_option_selects_the_archived_files(
    ran: Place, tmp_path: Path, kinds: str, there: list[str], missing: list[str]
) -> None:
    """`--with` selects the kinds of archived files. `none` archives only the log."""
    file = tmp_path / "archive.zip"
    ran.done("export", "archive", str(file), "--with", kinds)
    made = taken_over(file, tmp_path / "made")
    assert all((made.path / name).exists() for name in there)
    assert not any((made.path / name).exists() for name in missing)


def _followed(folder: Path) -> Place:
    """Create and run a sweep and a follower (a sweep over the same points).

    Their commands write random numbers, so that a repeated task is detected.
    """
    stages = [
        {
            "id": id_,
            "name": id_.title(),
            "depends_on": depends_on,
            "inputs": [f"{one}/tasks.csv" for one in depends_on],
            "outputs": [f"{id_}/tasks.csv"],
            "parameters": {
                "command": f'echo "{{\\"r\\": $RANDOM$RANDOM}}" > r.json; '
                f'echo "$WFCTL_TASK" >> {folder / id_}',
                "map": map_,
                "task_outputs": ["r.json"],
                "metrics": {"r": "r.json#/r"},
            },
        }
        for id_, depends_on, map_ in (
            ("lead", [], {"points": [{"T": 1}, {"T": 2}]}),
            ("go", ["lead"], {"like": "lead"}),
        )
    ]
    place = Place(folder / "root")
    place.path.mkdir()
    plan = {"workflow_id": "w", "purpose": "See.", "stages": stages}
    place.done("init", str(write_plan(folder, plan)), "--consent", "trust")
    place.done("run")
    return place


_FOLLOWED = ("lead", "go")


def _numbers(place: Place, stage: str) -> dict[str, float]:
    return {one["key"]: one["metrics"]["r"] for one in place.done("tasks", stage)["tasks"]}


def _with_one_more_point(place: Place, folder: Path) -> dict[str, tuple[int, int]]:
    """Add a point to the sweep and run it.

    Return the number of kept and of computed tasks that the proposal predicted for each stage.
    """
    for stage in _FOLLOWED:
        (folder / stage).unlink(missing_ok=True)
    change = 'parameters.map={"points": [{"T": 1}, {"T": 2}, {"T": 3}]}'
    words = ("--stage", "lead", "--set", change, "--reason", "More.")
    shown = place.done("amend", "propose", *words)["impact"]["tasks"]
    place.done("amend", "approve", "amend-1")
    place.done("run")
    return {stage: (one["kept"], one["computed"]) for stage, one in shown.items()}


@pytest.mark.slow
def test_new_point_in_an_imported_root_computes_only_this_point(
    tmp_path: Path,
) -> None:
    """Two sweeps compute one new task each, as predicted, and keep their earlier results."""
    place = _followed(tmp_path)
    before = {stage: _numbers(place, stage) for stage in _FOLLOWED}
    file = tmp_path / "archive.zip"
    assert place.done("export", "archive", str(file))["left_out"] == []
    place.path.rename(tmp_path / "gone")
    made = taken_over(file, tmp_path / "made")
    made.done("--root-is", "moved", "note", "Here now.")
    assert {stage: _numbers(made, stage) for stage in _FOLLOWED} == before
    assert _with_one_more_point(made, tmp_path) == dict.fromkeys(_FOLLOWED, (2, 1))
    for stage in _FOLLOWED:
        assert (tmp_path / stage).read_text().split() == ["T=3"]
        assert before[stage].items() <= _numbers(made, stage).items()
    assert made.done("verify", "--deep")["found"] == []


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["all", "a task", "an output", "the records of attempts"])
def test_impact_counts_only_tasks_with_existing_results(tmp_path: Path, lost: str) -> None:
    """The proposal predicts that tasks without results run again, and they do."""
    place = _followed(tmp_path)
    if lost == "all":
        file = tmp_path / "archive.zip"
        place.done("export", "archive", str(file), "--with", "none")
        place.path.rename(tmp_path / "gone")
        place = taken_over(file, tmp_path / "made")
        place.done("--root-is", "moved", "note", "Here now.")
    elif lost == "a task":
        shutil.rmtree(place.path / "lead/tasks/T=1")
    elif lost == "an output":
        (place.path / "lead/tasks/T=1/r.json").unlink()
    else:
        for stage in _FOLLOWED:
            shutil.rmtree(place.path / stage / ".attempts")
    kept = {"all": 0, "the records of attempts": 2}.get(lost, 1)
    assert _with_one_more_point(place, tmp_path) == dict.fromkeys(_FOLLOWED, (kept, 3 - kept))
    for stage in _FOLLOWED:
        assert len((tmp_path / stage).read_text().split()) == 3 - kept


def small(folder: Path, **stage: Any) -> Place:
    """Create a workflow of one stage with an output, and run it."""
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
def test_changed_file_is_not_archived(tmp_path: Path) -> None:
    """The export and the import both report a file that differs from the log."""
    place = small(tmp_path)
    (place.path / "film/out.txt").write_text("another\n")
    told = place.done("export", "archive", str(tmp_path / "archive.zip"))
    assert told["taken"] == {}
    assert told["left_out"][0] == {
        "path": "film/out.txt", "bytes": 0, "why": "the file differs from the log",
    }  # fmt: skip
    line = ["import", str(tmp_path / "archive.zip"), "--into", str(tmp_path / "made")]
    assert "not in the archive: film/out.txt" in call(*line).out


@pytest.mark.long
@pytest.mark.slow
def test_large_files_are_archived_only_on_request(tmp_path: Path) -> None:
    """The export leaves out a large file and names it. With --with, the file is archived."""
    place = small(tmp_path, inputs=["big", "in.txt"])
    told = place.done("export", "archive", str(tmp_path / "archive.zip"))
    assert set(told["taken"]) == {"film/out.txt", "in.txt"}
    assert [(one["path"], one["bytes"]) for one in told["left_out"]] == [("big", 100_000_001)]
    whole = tmp_path / "whole.zip"
    assert "big" in place.done("export", "archive", str(whole), "--with", "inputs")["taken"]
    assert (taken_over(whole, tmp_path / "made").path / "big").stat().st_size == 100_000_001


def test_machine_file_is_never_archived(tmp_path: Path) -> None:
    """A machine file may contain the credentials of a cluster, so no archive has it."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    (place.path / "hpc.json").write_text("{}")
    profiles = {"hpc": {"type": "local", "config_path": "./hpc.json"}}
    plan = {"workflow_id": "w", "default_backend": "hpc", "backend_profiles": profiles}
    stages = [{"id": "film", "name": "Film"}]
    place.done("init", str(write_plan(tmp_path, {**plan, "stages": stages})), "--consent", "trust")
    assert "hpc.json" not in place.done("export", "archive", str(tmp_path / "a.zip"))["taken"]


@pytest.mark.slow
def test_import_does_not_overwrite_existing_files(ran: Place, tmp_path: Path) -> None:
    """The import keeps an existing file with other content, and its answer lists the file."""
    file = handed_over(ran, tmp_path)
    (tmp_path / "made/film").mkdir(parents=True)
    (tmp_path / "made/film/out.txt").write_text("mine\n")
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "-o", "json")
    assert answer.data["kept"] == ["film/out.txt"]
    assert (tmp_path / "made/film/out.txt").read_text() == "mine\n"


def test_artifacts_of_machines_are_archived(tmp_path: Path) -> None:
    """The archive has the design file that a machine (agent protocol) names."""
    place = Place(tmp_path / "root")
    (place.path / "docs").mkdir(parents=True)
    (place.path / "docs/design.md").write_text("As it is.\n")
    place.done("machine", "init", "job1", "--type", "feature")
    place.done("machine", "update", "job1", "artifacts.design=docs/design.md")
    made = taken_over(handed_over(place, tmp_path), tmp_path / "made")
    assert (made.path / "docs/design.md").read_text() == "As it is.\n"


@pytest.mark.slow
def test_archive_of_an_older_version_can_be_imported(ran: Place, tmp_path: Path) -> None:
    """An archive is imported although its manifest has no list of left-out files."""
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
    """Add or replace files in an archive, and update the manifest."""
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
    """Change the manifest entry of the result in an archive."""
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
    "a hidden file of a task": lambda file: forged(file, {"files/a/tasks/T=1/.bashrc": b"x"}),
    "a file of an attempt": lambda file: forged(
        file, {"files/a/.attempts/att-0001/tasks/worker.sh": b"x"}
    ),
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
def test_hostile_archive_is_refused(ran: Place, tmp_path: Path, what: str) -> None:
    """An archive with dangerous paths creates no file, neither in the root nor outside."""
    file = HOSTILE[what](handed_over(ran, tmp_path))
    before = tree(tmp_path)
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "-o", "json")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive"), answer
    answer = wfctl("serve", str(file), environ={"TMPDIR": str(tmp_path)})
    assert (answer.code, "Nothing was imported" in answer.err) == (1, True), answer
    assert tree(tmp_path) == before


@pytest.mark.slow
def test_import_does_not_write_through_a_link(ran: Place, tmp_path: Path) -> None:
    """If a folder of the new root is a link to the outside, the import is refused."""
    file = handed_over(ran, tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "made").mkdir()
    (tmp_path / "made/film").symlink_to(tmp_path / "outside")
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "-o", "json")
    assert answer.error["code"] == "outside_root"
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.slow
def test_smallest_files_are_archived_up_to_the_total_limit(tmp_path: Path) -> None:
    """If all files together exceed the limit, the export leaves out the largest file."""
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
