"""Status, report, page and audit report many ways to let a failing result pass.

An agent could do each of these manipulations with the rights of one user account.

Three ways are not detected. The first is a script written for the wanted result before any
approval, with a module next to it. The second is an approval that a program types at a terminal,
because its event equals the event of a person. The third is a removed log, if the agent also
removes what the user account remembers of the log.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adoption.support import document, imported, stage, write_files
from tests.amendments.support import PLAN, make
from tests.cli.support import Place
from tests.cli.terminal import answered
from tests.exports.support import text_of
from tests.reconciler.support import until
from tests.sweeps.support import begun, sweep
from tests.verification.test_came_about import (
    CONSTANT,
    STAGE,
    check_reported,
    failed,
    script,
    told,
)

Way = Callable[[Path, pytest.MonkeyPatch], Place]
HASTY = ("--actor", "agent:hasty")
ADOPTED = "the part of a manual edit that the rules allow was adopted"
PYTHON = "python3 -c '{}' && echo 1 > out.txt\n"


def passed(place: Place) -> Place:
    """Retry the failed stage, and check that the run completes it."""
    place.done("stage", "retry", "stage-1", "--fix", "none")
    place.done("run")
    return place


def running(folder: Path, text: str, **more: Any) -> Place:
    """Create a workflow whose only stage has failed while running the given script."""
    place = begun(folder, {**STAGE, **more})
    script(place).parent.mkdir()
    script(place).write_text(text)
    assert place.json("run").code == 6
    return place


def constants(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Replace the failed script with one that writes the wanted number."""
    place = failed(folder)
    script(place).write_text(CONSTANT)
    return passed(place)


def limits(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Change the limit in an input file with which the check compares the result."""
    bounded = {**STAGE["parameters"], "verify": 'test "$(cat stage-1/out.txt)" -lt "$(cat limit)"'}
    place = begun(folder, {**STAGE, "inputs": ["limit"], "parameters": bounded})
    (place.path / "limit").write_text("4\n")
    script(place).parent.mkdir()
    script(place).write_text("echo 5 > out.txt\n")
    assert place.json("run").code == 6
    (place.path / "limit").write_text("6\n")
    return passed(place)


def check(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """After a failure, replace the check script with one that accepts everything."""
    judged = {**STAGE["parameters"], "verify": "bash check.sh"}
    place = begun(folder, {**STAGE, "parameters": judged})
    (place.path / "check.sh").write_text("grep -q 0.9 stage-1/out.txt\n")
    script(place).parent.mkdir()
    script(place).write_text("exit 3\n")
    assert place.json("run").code == 6
    (place.path / "check.sh").write_text("exit 0\n")
    script(place).write_text("echo 0.5 > out.txt\n")
    return passed(place)


def rewritten(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Rewrite the result after the job and before a person judges it."""
    place = running(folder, "echo 0.5 > out.txt\n", success_criteria="It is above 0.95.")
    (place.path / "stage-1/out.txt").write_text("0.97\n")
    place.done("stage", "complete", "stage-1", "--evidence", "It is 0.97.")
    return place


def flag(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """Turn off Python's assertions with an environment variable."""
    place = running(folder, PYTHON.format("assert 0"))
    patch.setenv("PYTHONOPTIMIZE", "1")
    return passed(place)


def module_path(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """Add a module to PYTHONPATH that the script could not import before."""
    place = running(folder, PYTHON.format("import sampler"))
    (folder / "sampler.py").write_text("")
    patch.setenv("PYTHONPATH", f"{folder}:{os.environ.get('PYTHONPATH', '')}")
    return passed(place)


def interpreter(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """Put another `python3`, which runs nothing, first on PATH."""
    place = running(folder, PYTHON.format("assert 0"))
    (folder / "bin").mkdir()
    program(folder / "bin/python3", f'[ "$1" = -c ] || exec {sys.executable} "$@"')
    patch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    return passed(place)


def program(place: Path, text: str) -> None:
    """Write an executable bash script."""
    place.write_text(f"#!/bin/bash\n{text}\n")
    place.chmod(0o755)


def shadow(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Add a module that the check imports instead of the standard library's module."""
    judged = {**STAGE["parameters"], "verify": "python3 check.py"}
    place = begun(folder, {**STAGE, "parameters": judged})
    text = "import statistics\nassert statistics.mean([0.5]) > 0.95\n"
    (place.path / "check.py").write_text(text)
    script(place).parent.mkdir()
    script(place).write_text("echo 0.5 > out.txt\n")
    assert place.json("run").code == 6
    (place.path / "statistics.py").write_text("mean = lambda _: 1\n")
    return passed(place)


def journal(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Edit a worker's journal so that a failed task counts as done, and move its folder."""
    wait = f"[ $WFCTL_PARAM_T = 1 ] || until [ -e {folder}/go ]; do sleep 0.05; done"
    made = sweep(folder / "trace", {"grid": {"T": [1, 2]}}, wait, at_once=1)
    fails = f"{made['parameters']['command']} && [ $WFCTL_PARAM_T = 2 ]"
    made["parameters"]["command"] = fails
    place = begun(folder, made)
    place.done("dispatch", "stage-1")
    attempts = place.path / "stage-1/.attempts"
    until(lambda: list(attempts.glob("*/tasks/failed/*/e.json")))
    (tasks,) = attempts.glob("*/tasks")
    until(lambda: "failed" in "".join(one.read_text() for one in tasks.glob("journal.*")))
    place.done("reconcile")
    for one in tasks.glob("journal.*"):
        one.write_text(one.read_text().replace("failed\t1", "done\t0").replace("exit 1", ""))
    (task,) = tasks.glob("failed/*")
    (place.path / "stage-1/tasks").mkdir(exist_ok=True)
    task.rename(place.path / "stage-1/tasks" / task.name)
    (folder / "go").touch()
    place.done("run")
    return place


def task(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Rewrite the result of a task before wfctl notices the end of the sweep."""
    place = begun(folder, sweep(folder / "trace", {"grid": {"T": [1, 2]}}))
    place.done("dispatch", "stage-1")
    until((place.path / "stage-1/DPDISP_DONE").exists)
    out = next((place.path / "stage-1/tasks").glob("*/e.json"))
    out.write_text('{"e": 0.97}\n')
    os.utime(out, (out.stat().st_mtime + 40,) * 2)
    place.done("run")
    return place


def an_import(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Import a state file that calls a stage completed although its output is missing."""
    state = document(stage(1, "completed", outputs=["stage-1/out.txt"]))
    place = imported(write_files(folder / "melt", state))
    report = place.call("report").out
    assert "0 of 1 stages are completed; taken over, stage-1: outputs missing" in report
    return place


def adopted(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Change a result after the run, and let an agent adopt the change."""
    place = begun(folder, STAGE)
    script(place).parent.mkdir()
    script(place).write_text("echo 0.5 > out.txt\n")
    place.done("run")
    (place.path / "stage-1/out.txt").write_text("0.97\n")
    place.done(*HASTY, "verify", "stage-1", "--adopt", "--reason", "It is better.")
    return place


def edited(place: Place, **fields: Any) -> None:
    """Edit the state file by hand, and run a command that notices the edit."""
    path = place.path / "workflow-state.json"
    state = json.loads(path.read_text())
    state["stages"][0] |= fields
    path.write_text(json.dumps(state))
    place.done("note", "On we go.")


def hand_edits(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """As an agent, discard a person's edit of the criteria and adopt a false status."""
    place = running(folder, "echo 0.5 > out.txt\n", success_criteria="It is a number.")
    edited(place, success_criteria="It is above 0.95.")
    place.done(*HASTY, "drift", "revert")
    edited(place, status="completed")
    place.done(*HASTY, "drift", "adopt", "--evidence", "It is well.")
    assert ("edit", ADOPTED) in told(place)
    assert "as stated by agent:hasty" in place.call("report").out
    return place


def anew(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Delete the log with the failure, and create the workflow again."""
    place = failed(folder)
    shutil.rmtree(place.path / ".wfctl")
    for name in ("workflow-state.json", "progress.log"):
        (place.path / name).unlink()
    script(place).write_text(CONSTANT)
    place.done("init", str(place.path.parent / "plan.json"), "--consent", "trust")
    place.done("run")
    return place


#: For each manipulation: the kind of the item that reports it, and a part of its text.
WAYS: list[tuple[Way, str, str]] = [
    (constants, "script", "stage-1/sample.sh has changed since att-0001, which failed"),
    (limits, "input", "limit has changed since att-0001, which failed"),
    (check, "script", "check.sh has changed since att-0001, which failed"),
    (rewritten, "rewritten", "stage-1/out.txt differs from the output of att-0001"),
    (flag, "environment", "PYTHONOPTIMIZE=1 was not set in att-0001, which failed"),
    (module_path, "environment", "PYTHONPATH"),
    (interpreter, "environment", "bin/python3 was "),
    (
        shadow,
        "module",
        "statistics.py is in a folder from which a script imports",
    ),
    (journal, "journal", "which records how tasks of att-0001 ended, was edited"),
    (task, "rewritten", " s after its task ended"),
    (an_import, "taken over", "outputs missing: stage-1/out.txt"),
    (adopted, "adopted", "changed by hand and adopted, by agent:hasty (policy trust"),
    (hand_edits, "edit", "a manual edit was discarded, by agent:hasty (policy trust"),
    (anew, "log", "workflow-sweep-2026-11-23, created 20"),
]
#: Kinds for which the audit, which reads only events, has another kind and text.
AUDITED = {"edit": ("agent", "decided by an agent"), "log": ("anew", "stage-1 failed")}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("way", "kind", "words"), WAYS, ids=[one[0].__name__ for one in WAYS])
def test_each_manipulation_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way, kind: str, words: str
) -> None:
    """Status, report, page and audit have an item about the manipulation."""
    place = way(tmp_path, monkeypatch)
    check_reported(place, (kind, words), AUDITED.get(kind, (kind, words)))


@pytest.mark.slow
def test_approval_typed_at_a_terminal_is_shown_as_not_verified(tmp_path: Path) -> None:
    """A program types the approval at a terminal; every view says "name not verified"."""
    place = make(tmp_path / "root", plan={**PLAN, "stages": [STAGE]}, agreed=False)
    line = ("--actor", "user:pi", "amend", "approve", "plan")
    code, shown = answered("y\n", "--root", str(place.path), *line)
    assert code == 0, shown
    said = "at a terminal by user:pi (name not verified)"
    for told_by in ("status", "report"):
        assert f"plan approved {said}" in " ".join(place.call(told_by).out.split())
    assert place.done("status")["consent"]["decisions"] == {f"approved {said}": ["plan"]}
    assert said in text_of(place, "report").replace("&#39;", "'")
    assert place.json("audit", "bypasses").data == []
