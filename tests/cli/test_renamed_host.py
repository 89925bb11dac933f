"""A host whose name changed after the attempt was launched."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.host import processes
from tests.cli.support import Place, attempt_data

JOB = "a" * 40


def finished(place: Place, boot_id: str, **launch: Any) -> Path:
    """Create an attempt that finished under another hostname and was not collected."""
    task = {"task_work_path": "stage-1", "backward_files": ["out.txt"]}
    submission = json.dumps({"work_base": ".", "task_list": [task]})
    known = {"root": str(place.path.resolve()), "host": "former", "boot_id": boot_id}
    digest = hashlib.sha256(submission.encode()).hexdigest()
    data = attempt_data(**known, submission_sha256=digest)
    place.done("append", "attempt.started", "--data", data)
    folder = place.path / "stage-1/.attempts/att-0001"
    (folder / f"job-{JOB}.started").mkdir(parents=True)
    (folder / f"job-{JOB}.exit").write_text("0\n")
    (folder / "launch.json").write_text(json.dumps({**known, **launch}))
    copy = folder / "work" / ("c" * 40) / "stage-1"
    copy.mkdir(parents=True)
    (copy / "out.txt").write_text("1\n")
    (folder / "submission.json").write_text(submission)
    return folder


def verdict_of(place: Place) -> str:
    """Return the newest recorded verdict."""
    observed: dict[str, Any] = place.done("events", "--type", "attempt.observed")[-1]
    return str(observed["data"]["verdict"])


@pytest.mark.parametrize("is_known", [True, False], ids=["same machine", "unknown machine"])
def test_a_renamed_host_is_recognized_by_its_machine_id(
    place: Place, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """After a reboot, wfctl recognizes the host by its machine id if its disk is local."""
    monkeypatch.setattr("reconciler.host.processes.machine_id", lambda: "m" * 32)
    finished(place, "another boot", machine_id="m" * 32 if is_known else "n" * 32)
    place.done("rehydrate", "--dry-run")
    seen = place.json("reconcile", "--dry-run").data["findings"][0]["verdict"]["name"]
    assert seen == ("FINISHED_NOT_COLLECTED" if is_known else "ELSEWHERE")


def test_same_boot_id_means_the_same_machine(place: Place) -> None:
    """wfctl recognizes the host by its boot id, whatever its hostname and machine id."""
    finished(place, processes.boot_id())
    seen = place.json("reconcile", "--dry-run").data["findings"][0]["verdict"]["name"]
    assert seen == "FINISHED_NOT_COLLECTED"


def test_person_confirms_that_an_unrecognized_host_is_the_same(place: Place) -> None:
    """The verdict names the command with which a person confirms the host."""
    finished(place, "another boot")
    place.done("reconcile")
    assert verdict_of(place) == "ELSEWHERE"
    observed = place.done("events", "--type", "attempt.observed")[-1]["data"]["reason"]
    assert "`wfctl --root-is moved rehydrate`" in observed
    place.done("rehydrate", "--root-is", "moved")
    assert (place.path / "stage-1/out.txt").read_text() == "1\n"
    assert place.types("--type", "stage.computed") == ["stage.computed"]
    assert any(note.startswith("Root moved from former to ") for note in place.notes())


def test_stage_of_a_lost_host_can_run_again(place: Place) -> None:
    """The stage is dispatched after a person has declared that the root moved."""
    finished(place, "another boot")
    place.done("stage", "fail", "stage-1", "--error", "the host is gone")
    place.done("stage", "retry", "stage-1", "--fix", "another host")
    refused = place.json("dispatch", "stage-1")
    assert (refused.code, refused.error["code"]) == (5, "not_stopped")
    assert "--root-is moved" in refused.error["message"]
    place.done("note", "the host is gone", "--root-is", "moved")
    assert place.json("dispatch", "stage-1", "--dry-run").code == 0
    answer = place.json("dispatch", "stage-1")
    assert answer.code == 0 or answer.error["code"] != "not_stopped"
