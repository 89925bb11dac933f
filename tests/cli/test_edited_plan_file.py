"""wfctl warns if the plan file was edited after wfctl read it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, call, wfctl, write_plan

WARNING = "plan plan.json: was changed after wfctl read it"


def build_plan(value: int = 1) -> dict[str, Any]:
    """Return a plan whose parameter T has the given value."""
    parameters = {"command": "echo $WFCTL_PARAM_T > out.txt", "T": value}
    stage = {"id": "stage-1", "name": "Run", "parameters": parameters}
    return {"workflow_id": "w", "stages": [stage | {"outputs": ["stage-1/out.txt"]}]}


def started(folder: Path) -> Place:
    """Return a workflow that was created from ``plan.json`` in its folder."""
    plan = write_plan(folder, build_plan())
    answer = call("--root", str(folder), "init", str(plan), "--consent", "trust")
    assert answer.code == 0, answer
    return Place(folder)


def warns(place: Place) -> bool:
    """Return whether `status` warns about the plan file, in text and JSON alike."""
    answer = place.call("status")
    assert answer.code == 0, answer
    items = [one for one in place.done("status")["account"] if one["kind"] == "plan"]
    assert (WARNING in answer.out) == bool(items)
    return bool(items)


def test_edited_plan_file_causes_a_warning(tmp_path: Path) -> None:
    """`status`, `run` and `dispatch` name the file and the command that applies it."""
    place = started(tmp_path)
    assert not warns(place)
    write_plan(tmp_path, build_plan(2))
    assert warns(place)
    status = place.call("status").out
    assert status.count("plan.json") == 2
    command = f"wfctl plan apply {tmp_path}/plan.json --reason TEXT"
    assert f"`{command}` proposes the changes" in status
    assert WARNING in place.call("dispatch", "stage-1", "--sync").err
    assert WARNING in place.call("run").err
    # The workflow is completed, but it was computed with the old plan.
    assert (tmp_path / "stage-1/out.txt").read_text() == "1\n"
    assert WARNING in place.call("run").err
    assert warns(place)


@pytest.mark.parametrize(("name", "shown"), [("plan.json", "plan.json"), ("-p.json", "./-p.json")])
def test_suggested_command_names_the_file_for_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, shown: str
) -> None:
    """In the workflow's folder, the command needs no absolute path."""
    plan = write_plan(tmp_path, build_plan(), name)
    answer = call("--root", str(tmp_path), "init", str(plan), "--consent", "trust")
    assert answer.code == 0, answer
    write_plan(tmp_path, build_plan(2), name)
    monkeypatch.chdir(tmp_path)
    assert f"`wfctl plan apply {shown} --reason TEXT`" in call("status").out


def test_applied_plan_file_ends_the_warning(tmp_path: Path) -> None:
    """`plan apply` reads the file, so no warning follows. A dry run does not count."""
    place = started(tmp_path)
    plan = write_plan(tmp_path, build_plan(2))
    line = ("plan", "apply", str(plan), "--reason", "so")
    assert place.call(*line, "--dry-run").code == 0
    assert warns(place)
    assert place.call(*line).code == 0
    assert place.done("show", "stage-1")["parameters"]["T"] == 2
    assert not warns(place)


def test_same_plan_in_another_layout_causes_no_warning(tmp_path: Path) -> None:
    """A file with the same plan in other bytes is not edited, and other values are."""
    place = started(tmp_path)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(build_plan(), indent=2))
    assert not warns(place)
    plan.write_text(json.dumps(build_plan(2), indent=2))
    assert warns(place)


@pytest.mark.parametrize("name", ["plan.toml", "plan.yaml"])
def test_changed_comment_causes_no_warning(tmp_path: Path, name: str) -> None:
    """Comments and empty lines are not part of the plan."""
    text = {
        "plan.toml": 'workflow_id = "w"\n[[stages]]\nid = "stage-1"\nname = "Run"\n',
        "plan.yaml": "workflow_id: w\nstages:\n- id: stage-1\n  name: Run\n",
    }[name]
    (tmp_path / name).write_text(text)
    place = Place(tmp_path)
    assert place.call("init", str(tmp_path / name), "--consent", "trust").code == 0
    (tmp_path / name).write_text(f"# a new comment\n\n{text}\n")
    assert place.done("status")["account"] == []
    (tmp_path / name).write_text(text.replace("Run", "Walk"))
    assert [one["kind"] for one in place.done("status")["account"]] == ["plan"]


@pytest.mark.parametrize("text", ["{", '{"stages": 1}', "[]", "\xff"])
def test_invalid_plan_file_causes_a_warning(tmp_path: Path, text: str) -> None:
    """A file that contains no valid plan is edited."""
    place = started(tmp_path)
    (tmp_path / "plan.json").write_bytes(text.encode("latin-1"))
    assert warns(place)


def test_record_of_an_earlier_version_compares_the_bytes(tmp_path: Path) -> None:
    """A record without the digest of the parsed plan reports each change of the file."""
    place = started(tmp_path)
    record = tmp_path / ".wfctl/plan-file.json"
    told = json.loads(record.read_text())
    del told["document"]
    record.write_text(json.dumps(told))
    assert not warns(place)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(build_plan(), indent=2))
    assert warns(place)
    assert place.done("plan", "apply", str(plan))["changed"] is False
    assert not warns(place)


def test_touched_plan_file_causes_no_warning(tmp_path: Path) -> None:
    """Only the bytes of the file count, not its times."""
    place = started(tmp_path)
    (tmp_path / "plan.json").write_text((tmp_path / "plan.json").read_text())
    os.utime(tmp_path / "plan.json", (1, 1))
    assert not warns(place)


def test_amendment_causes_no_warning_about_the_plan_file(tmp_path: Path) -> None:
    """An amendment changes the plan in the log, but nobody edited the file."""
    place = started(tmp_path)
    change = ("--stage", "stage-1", "--set", "parameters.T=3", "--reason", "so")
    assert place.call("amend", "propose", *change).code == 0
    assert place.call("amend", "approve", "amend-1").code == 0
    assert place.done("show", "stage-1")["parameters"]["T"] == 3
    assert not warns(place)


def test_plan_without_a_file_causes_no_warning(tmp_path: Path) -> None:
    """A plan from stdin has no file, and it replaces a file that wfctl read before."""
    text = json.dumps(build_plan())
    root = f"--root={tmp_path}"
    assert wfctl(root, "init", "-", "--consent", "trust", stdin=text).code == 0
    write_plan(tmp_path, build_plan(2))
    place = Place(tmp_path)
    assert not warns(place)
    assert place.call("plan", "apply", str(tmp_path / "plan.json"), "--reason", "so").code == 0
    text = json.dumps(build_plan(3))
    assert wfctl(root, "plan", "apply", "-", "--reason", "back", stdin=text).code == 0
    write_plan(tmp_path, build_plan(4))
    assert not warns(place)


def test_missing_plan_file_causes_no_warning(tmp_path: Path) -> None:
    """Nobody needs the file after `init`, so a deleted or replaced file is not reported."""
    place = started(tmp_path)
    (tmp_path / "plan.json").unlink()
    assert not warns(place)
    (tmp_path / "plan.json").mkdir()
    assert not warns(place)
    (tmp_path / ".wfctl/plan-file.json").write_text("{")
    assert not warns(place)


def test_copied_workflow_compares_its_own_plan_file(tmp_path: Path) -> None:
    """A copy does not warn if the file in the original is edited later."""
    (tmp_path / "original").mkdir()
    place = started(tmp_path / "original")
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    write_plan(place.path, build_plan(2))
    copy = Place(tmp_path / "copy")
    assert warns(place)
    assert not warns(copy)
    write_plan(copy.path, build_plan(3))
    assert warns(copy)


def test_plan_file_outside_of_the_workflow_is_compared(tmp_path: Path) -> None:
    """The warning names a file in another folder by its absolute path."""
    (tmp_path / "root").mkdir()
    plan = write_plan(tmp_path, build_plan())
    place = Place(tmp_path / "root")
    assert place.call("init", str(plan), "--consent", "trust").code == 0
    write_plan(tmp_path, build_plan(2))
    assert f"wfctl plan apply {plan} --reason" in place.call("status").out


def test_state_file_as_plan_causes_no_warning(tmp_path: Path) -> None:
    """wfctl itself rewrites workflow-state.json, even if it is the plan file."""
    plan = write_plan(tmp_path, build_plan(), "workflow-state.json")
    place = Place(tmp_path)
    assert place.call("init", str(plan), "--consent", "trust").code == 0
    assert place.call("note", "hi").code == 0
    assert place.done("status")["account"] == []


def test_link_to_another_plan_file_causes_a_warning(tmp_path: Path) -> None:
    """The name that the user gave counts, even if it is a link to another file now."""
    root = tmp_path / "root"
    root.mkdir()
    for number in (1, 2):
        write_plan(tmp_path, build_plan(number), f"{number}.json")
    (root / "plan.json").symlink_to("../1.json")
    place = Place(root)
    assert place.call("init", str(root / "plan.json"), "--consent", "trust").code == 0
    assert not warns(place)
    (root / "plan.json").unlink()
    (root / "plan.json").symlink_to("../2.json")
    assert warns(place)


def test_command_succeeds_if_the_plan_file_cannot_be_recorded(tmp_path: Path) -> None:
    """The record is only a cache, so the plan is applied without it."""
    place = started(tmp_path)
    (tmp_path / ".wfctl/plan-file.json").unlink()
    (tmp_path / ".wfctl/plan-file.json").mkdir()
    plan = write_plan(tmp_path, build_plan(2))
    assert place.call("plan", "apply", str(plan), "--reason", "so").code == 0
    assert place.done("show", "stage-1")["parameters"]["T"] == 2
