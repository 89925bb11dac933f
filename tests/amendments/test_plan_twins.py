"""Applied plans with sweeps, running attempts, signatures and forged rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adversary import raw
from tests.amendments.support import Keys
from tests.amendments.support import Place as Signed
from tests.cli.support import write_plan
from tests.sweeps.support import begun, lines, sweep

GRID = {"grid": {"T": [1, 2, 3]}}
QUIET = {"command": "true", "verify": "true"}
MORE = {"grid": {"T": [2, 3, 4]}}


def of(folder: Path, *stages: Any) -> str:
    """Write a plan with these stages."""
    plan = {"workflow_id": "sweep-2026-11-23", "purpose": "Many.", "stages": stages}
    return str(write_plan(folder, plan, "edited.json"))


@pytest.mark.slow
def test_applied_plan_keeps_the_same_tasks_as_an_amendment(tmp_path: Path) -> None:
    """An applied plan predicts and computes the same tasks as a proposal for the sweep."""
    other = {"id": "stage-2", "name": "Other", "parameters": {**QUIET, "n": 1}}
    place = begun(tmp_path, sweep(tmp_path / "trace", GRID), other)
    place.done("run")
    more = sweep(tmp_path / "trace", MORE)
    edited = of(tmp_path, more, {**other, "parameters": {**QUIET, "n": 2}})
    proposal = ["--stage", "stage-1", "--set", f"parameters.map={json.dumps(MORE)}"]
    alone = place.done("amend", "propose", *proposal, "--reason", "more", "--dry-run")["impact"]
    shown = place.done("plan", "apply", edited, "--reason", "more", "--dry-run")["impact"]
    for impact in (alone, shown):
        assert impact["tasks"]["stage-1"].pop("seconds") > 0
    assert shown["tasks"] == alone["tasks"]
    assert shown["tasks"] == {"stage-1": {"kept": 2, "computed": 1, "set_aside": 1}}
    place.done("plan", "apply", edited, "--reason", "more")
    place.done("run")
    assert lines(tmp_path / "trace") == ["T=1", "T=2", "T=3", "T=4"]
    assert sorted(p.name for p in (place.path / "stage-1/tasks").iterdir()) == ["T=2", "T=3", "T=4"]
    assert place.call("fsck", "--protocol").code == 0
    assert place.call("replay", "--check").code == 0


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("change", ["verify", "n"])
def test_running_attempt_continues_if_only_its_check_changes(tmp_path: Path, change: str) -> None:
    """An applied plan stops the running attempt only if it changes another parameter."""
    command = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done; echo $WFCTL_PARAM_n > out.txt"
    values = {"command": command, "verify": "true", "n": 1, "expected_seconds": 900}
    stage = {"id": "stage-1", "name": "One", "outputs": ["stage-1/out.txt"], "parameters": values}
    other = {"id": "stage-2", "name": "Two", "parameters": {**QUIET, "n": 1}}
    place = begun(tmp_path, stage, other)
    place.done("dispatch", "stage-1")
    new = {**values, change: {"verify": "grep -q 1 stage-1/out.txt", "n": 2}[change]}
    edited = of(tmp_path, {**stage, "parameters": new}, {**other, "name": "Second"})
    place.done("plan", "apply", edited, "--reason", "r")
    one = place.done("show", "stage-1")
    assert one["status"] == ("running" if change == "verify" else "ready"), one["status"]
    (tmp_path / "go").touch()
    place.done("run")
    assert (place.path / "stage-1/out.txt").read_text() == {"verify": "1\n", "n": "2\n"}[change]
    assert len(place.done("show", "stage-1")["attempts"]) == (1 if change == "verify" else 2)
    assert place.call("fsck", "--protocol").code == 0


def edited_of(place: Any, tmp_path: Path) -> str:
    """Write the current plan of a workflow with a changed value in its first stage."""
    document = json.loads((place.path / "workflow-state.json").read_text())
    kept = ("id", "name", "depends_on", "inputs", "outputs", "parameters", "backend",
            "success_criteria")  # fmt: skip
    stages = [{name: one[name] for name in kept if name in one} for one in document["stages"]]
    stages[0]["parameters"] = {**stages[0]["parameters"], "n": 4242}
    names = ("workflow_id", "experiment_design", "workflow_plan", "default_backend",
             "backend_profiles")  # fmt: skip
    plan = {name: document[name] for name in names if document.get(name) is not None}
    return str(write_plan(tmp_path, {**plan, "stages": stages}, "edited.json"))


def test_applied_plan_is_signed_by_an_allowed_key(
    signed: Signed, keys: Keys, tmp_path: Path
) -> None:
    """An applied plan takes effect with the key of an allowed signer only."""
    file = edited_of(signed, tmp_path)
    line = ("plan", "apply", file, "--reason", "r")
    assert signed.call(*line, "--key", str(keys.stranger)).code != 0
    assert signed.done("show", "stage-1")["parameters"].get("n") != 4242
    for one in signed.done("amend", "list", "--state", "proposed"):
        signed.done("amend", "reject", one["id"])
    signed.done(*line, "--key", str(keys.allowed))
    assert signed.done("show", "stage-1")["parameters"]["n"] == 4242
    newest = signed.done("amend", "list")[-1]
    assert (newest["type"], newest["status"]) == ("plan_change", "approved")


Edit = Callable[[dict[str, Any]], Any]
UNFIT: dict[str, tuple[Edit, str]] = {
    "a stage that there is not": (
        lambda data: data["rewired"].update({"stage-99": {"name": {"old": "x", "new": "y"}}}),
        "stage-99",
    ),
    "consent": (
        lambda data: data.update(changes={"consent": {"old": "trust", "new": "terminal"}}),
        "consent",
    ),
    "another old value": (
        lambda data: data["rewired"]["stage-1"].update(parameters={"n": {"old": 41, "new": 7}}),
        "41",
    ),
    "a status": (
        lambda data: data["rewired"]["stage-1"].update(
            status={"old": "completed", "new": "skipped"}
        ),
        "status",
    ),
    "a stage of its own": (lambda data: data.update(stage="stage-1"), "must not name a stage"),
    "nothing": (lambda data: data.update(rewired={}), "at least one field"),
    "another shape": (lambda data: data["rewired"].update({"stage-1": {"name": 3}}), ""),
}


@pytest.mark.forged
@pytest.mark.parametrize("what", UNFIT)
def test_forged_plan_change_has_no_effect(what: str, tmp_path: Path) -> None:
    """wfctl ignores an inserted plan change, or shows it with a reason."""
    edit, why = UNFIT[what]
    stage = {"id": "stage-1", "name": "One", "parameters": {"command": "true", "n": 1}}
    place = begun(tmp_path, stage)
    place.done("note", "before")
    data: dict[str, Any] = {
        "amendment": "amend-1",
        "kind": "plan_change",
        "stage": None,
        "description": "apply the plan",
        "reason": "r",
        "changes": {},
        "rewired": {"stage-1": {"parameters": {"n": {"old": 1, "new": 2}}}},
    }
    edit(data)
    raw.append(place.path, "amendment.proposed", data, schema_version=3)
    before = place.done("show", "stage-1")
    shown = place.json("amend", "show", "amend-1")
    if shown.code == 0:
        assert shown.data["takes_effect"] is False, shown
        assert why in shown.data["why"], shown.data["why"]
    else:
        assert shown.error["code"] == "unknown_amendment", shown
    assert place.call("amend", "approve", "amend-1").code != 0
    after = place.done("show", "stage-1")
    assert {**after, "version": 0} == {**before, "version": 0}
    assert place.call("status").code == 0
