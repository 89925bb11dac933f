"""Fifteen ways by which a hasty agent completes what does not meet its criteria, as one login can.

Each is played through the command line; anyone who looks afterwards is told how it came about.

Not told: a script that was made for the result from the first attempt on, which nothing is compared
with, and a module beside it of a name that Python has not; an approval at a terminal that a program
typed, by the audit, since it is the same event as a person's; the log that was there before, where
the agent removed what the login remembers of it too. One login can do each of them to itself.
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
from tests.verification.test_came_about import CONSTANT, STAGE, failed, script, told

Way = Callable[[Path, pytest.MonkeyPatch], Place]
HASTY = ("--actor", "agent:hasty")
ADOPTED = "a hand edit was adopted as far as the rules allow"
PYTHON = "python3 -c '{}' && echo 1 > out.txt\n"


def passed(place: Place) -> Place:
    """Have the stage that failed run once more, and pass."""
    place.done("stage", "retry", "stage-1", "--fix", "none")
    place.done("run")
    return place


def running(folder: Path, text: str, **more: Any) -> Place:
    """Return a workflow whose only stage failed, of a script with this text."""
    place = begun(folder, {**STAGE, **more})
    script(place).parent.mkdir()
    script(place).write_text(text)
    assert place.json("run").code == 6
    return place


def constants(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """The script writes the number that is wanted."""
    place = failed(folder)
    script(place).write_text(CONSTANT)
    return passed(place)


def limits(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """What the result is held to, an input, is made wider."""
    bounded = {**STAGE["parameters"], "verify": 'test "$(cat stage-1/out.txt)" -lt "$(cat limit)"'}
    place = begun(folder, {**STAGE, "inputs": ["limit"], "parameters": bounded})
    (place.path / "limit").write_text("4\n")
    script(place).parent.mkdir()
    script(place).write_text("echo 5 > out.txt\n")
    assert place.json("run").code == 6
    (place.path / "limit").write_text("6\n")
    return passed(place)


def check(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """The check says that all is well, before it is asked at all."""
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
    """The result is another one when it is judged."""
    place = running(folder, "echo 0.5 > out.txt\n", success_criteria="It is above 0.95.")
    (place.path / "stage-1/out.txt").write_text("0.97\n")
    place.done("stage", "complete", "stage-1", "--evidence", "It is 0.97.")
    return place


def flag(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """Assertions are switched off."""
    place = running(folder, PYTHON.format("assert 0"))
    patch.setenv("PYTHONOPTIMIZE", "1")
    return passed(place)


def module_path(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """A module of the same name is found first."""
    place = running(folder, PYTHON.format("import sampler"))
    (folder / "sampler.py").write_text("")
    patch.setenv("PYTHONPATH", f"{folder}:{os.environ.get('PYTHONPATH', '')}")
    return passed(place)


def interpreter(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """What is called python3 runs nothing."""
    place = running(folder, PYTHON.format("assert 0"))
    (folder / "bin").mkdir()
    program(folder / "bin/python3", f'[ "$1" = -c ] || exec {sys.executable} "$@"')
    patch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    return passed(place)


def program(place: Path, text: str) -> None:
    """Write a program."""
    place.write_text(f"#!/bin/bash\n{text}\n")
    place.chmod(0o755)


def shadow(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """A module of the root is taken for one of Python's own by the check that imports it."""
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
    """A task that failed is written down as done, and its folder is put where those lie."""
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
    """The result of a task is another one before anybody looks at the sweep."""
    place = begun(folder, sweep(folder / "trace", {"grid": {"T": [1, 2]}}))
    place.done("dispatch", "stage-1")
    until((place.path / "stage-1/DPDISP_DONE").exists)
    out = next((place.path / "stage-1/tasks").glob("*/e.json"))
    out.write_text('{"e": 0.97}\n')
    os.utime(out, (out.stat().st_mtime + 40,) * 2)
    place.done("run")
    return place


def an_import(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """A file that somebody wrote says that it is completed, and nothing is there."""
    state = document(stage(1, "completed", outputs=["stage-1/out.txt"]))
    place = imported(write_files(folder / "melt", state))
    report = place.call("report").out
    assert "0 of 1 stages are completed; taken over, stage-1: outputs missing" in report
    return place


def adopted(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """A result is another one afterwards, and is taken as it is."""
    place = begun(folder, STAGE)
    script(place).parent.mkdir()
    script(place).write_text("echo 0.5 > out.txt\n")
    place.done("run")
    (place.path / "stage-1/out.txt").write_text("0.97\n")
    place.done(*HASTY, "verify", "stage-1", "--adopt", "--reason", "It is better.")
    return place


def edited(place: Place, **fields: Any) -> None:
    """Edit the state file by hand, and let wfctl see it."""
    path = place.path / "workflow-state.json"
    state = json.loads(path.read_text())
    state["stages"][0] |= fields
    path.write_text(json.dumps(state))
    place.done("note", "On we go.")


def hand_edits(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """A person's hand edit of the criteria is dismissed, and one that says completed is adopted."""
    place = running(folder, "echo 0.5 > out.txt\n", success_criteria="It is a number.")
    edited(place, success_criteria="It is above 0.95.")
    place.done(*HASTY, "drift", "revert")
    edited(place, status="completed")
    place.done(*HASTY, "drift", "adopt", "--evidence", "It is well.")
    assert ("edit", f"{ADOPTED}; no person is asked for that") in told(place)
    assert "on the word of agent:hasty" in place.call("report").out
    return place


def anew(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """The log of the failure is removed, and the workflow begun anew."""
    place = failed(folder)
    shutil.rmtree(place.path / ".wfctl")
    for name in ("workflow-state.json", "progress.log"):
        (place.path / name).unlink()
    script(place).write_text(CONSTANT)
    place.done("init", str(place.path.parent / "plan.json"), "--consent", "trust")
    place.done("run")
    return place


#: The way, the kind of what is told of it, and words of it.
WAYS: list[tuple[Way, str, str]] = [
    (constants, "script", "stage-1/sample.sh was another file in att-0001, which failed"),
    (limits, "input", "limit was another file in att-0001, which failed"),
    (check, "script", "check.sh was another file in att-0001, which failed"),
    (rewritten, "rewritten", "stage-1/out.txt is not what att-0001 left"),
    (flag, "environment", "PYTHONOPTIMIZE=1 was not set in att-0001, which failed"),
    (module_path, "environment", "PYTHONPATH="),
    (interpreter, "environment", "bin/python3 was "),
    (shadow, "module", "statistics.py lies where a script imports from, and did not in att-0001"),
    (journal, "journal", " was edited; by it tasks of att-0001 tell how they ended"),
    (task, "rewritten", " s after its task ended"),
    (an_import, "taken over", "outputs missing: stage-1/out.txt"),
    (adopted, "adopted", "changed by hand and taken as it is, by agent:hasty, on trust"),
    (hand_edits, "edit", "a hand edit was dismissed, by agent:hasty, on trust"),
    (anew, "log", "before it this login wrote workflow-sweep-2026-11-23 here"),
]
#: What the audit calls what the account calls otherwise, as it has it from the events.
AUDITED = {"edit": ("agent", "decided by an agent"), "log": ("anew", "stage-1 failed")}


@pytest.mark.slow
@pytest.mark.parametrize(("way", "kind", "words"), WAYS, ids=[one[0].__name__ for one in WAYS])
def test_each_way_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way, kind: str, words: str
) -> None:
    """By status, the report and the page alike."""
    place = way(tmp_path, monkeypatch)
    assert place.done("status")["stages"][0]["status"] == "completed"
    assert any(kind == one and words in text for one, text in told(place)), told(place)
    tried = place.json("audit", "bypasses")
    assert tried.code == 7
    kind, words = AUDITED.get(kind, (kind, words))
    assert any(kind == one["kind"] and words in one["why"] for one in tried.data), tried


@pytest.mark.slow
def test_a_name_that_is_typed_at_a_terminal_is_told_to_prove_no_person(tmp_path: Path) -> None:
    """The fourteenth way: the plan is approved by a program that opened a terminal of its own."""
    place = make(tmp_path / "root", plan={**PLAN, "stages": [STAGE]}, agreed=False)
    line = ("--actor", "user:pi", "amend", "approve", "plan")
    code, shown = answered("y\n", "--root", str(place.path), *line)
    assert code == 0, shown
    said = "at a terminal, as user:pi by the caller's own word: this policy proves no person"
    for told_by in ("status", "report"):
        assert f"plan approved {said}" in " ".join(place.call(told_by).out.split())
    assert place.done("status")["consent"]["decisions"] == {f"approved {said}": ["plan"]}
    assert said in text_of(place, "report").replace("&#39;", "'")
    assert place.json("audit", "bypasses").data == []
