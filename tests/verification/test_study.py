"""Fifteen ways by which a hasty agent completes what does not meet its criteria, as one login can.

Each is played through the command line; whoever looks afterwards is told how it came about.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adoption.support import document, imported, stage, write_files
from tests.adversary.raw import append
from tests.cli.support import Place
from tests.reconciler.support import until
from tests.sweeps.support import begun, sweep
from tests.verification.test_came_about import CONSTANT, STAGE, failed, script, told

Way = Callable[[Path, pytest.MonkeyPatch], Place]
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


def path(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """Another program of the same name is found first."""
    place = running(folder, "sample_it > out.txt\n")
    (folder / "bin").mkdir()
    program(folder / "bin/sample_it", "echo 0.97")
    patch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    return passed(place)


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
    """A file that somebody wrote says that it is completed."""
    state = document(stage(1, "completed"), workflow_status="completed")
    return imported(write_files(folder / "melt", state))


def without_outputs(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """A file that somebody wrote says that it is completed, and nothing is there."""
    state = document(stage(1, "completed", outputs=["stage-1/out.txt"]))
    place = imported(write_files(folder / "melt", state))
    report = place.call("report").out
    assert "0 of 1 stages are completed; taken over, stage-1: outputs missing" in report
    return place


#: The way, the kind of what is told of it, and words of it.
WAYS: list[tuple[Way, str, str]] = [
    (constants, "script", "stage-1/sample.sh was another file in att-0001, which failed"),
    (limits, "input", "limit was another file in att-0001, which failed"),
    (check, "script", "check.sh was another file in att-0001, which failed"),
    (rewritten, "rewritten", "stage-1/out.txt is not what att-0001 left"),
    (path, "environment", "PATH="),
    (flag, "environment", "PYTHONOPTIMIZE=1 was not set in att-0001, which failed"),
    (module_path, "environment", "PYTHONPATH="),
    (interpreter, "environment", "bin/python3 was "),
    (shadow, "module", "statistics.py lies where a script imports from, and did not in att-0001"),
    (journal, "journal", " was edited; by it tasks of att-0001 tell how they ended"),
    (task, "rewritten", " s after its task ended"),
    (an_import, "taken over", "completed by an imported record; nothing verified it"),
    (without_outputs, "taken over", "outputs missing: stage-1/out.txt"),
]


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
    assert any(kind == one["kind"] and words in one["why"] for one in tried.data), tried


@pytest.mark.slow
def test_a_changed_result_that_an_agent_adopts_is_told(tmp_path: Path) -> None:
    """By the report and the audit."""
    place = begun(tmp_path, STAGE)
    script(place).parent.mkdir()
    script(place).write_text("echo 0.5 > out.txt\n")
    place.done("run")
    (place.path / "stage-1/out.txt").write_text("0.97\n")
    adopt = ("verify", "stage-1", "--adopt", "--reason", "It is better.")
    place.done("--actor", "agent:hasty", *adopt)
    assert "changed by hand: It is better" in place.call("report").out
    tried = place.json("audit", "bypasses")
    assert {(one["kind"], one["what"]) for one in tried.data} == {
        ("adopted", "stage-1"),
        ("agent", "adopted results of stage-1"),
    }


@pytest.mark.slow
def test_a_name_that_an_agent_approves_by_is_told(tmp_path: Path) -> None:
    """A policy that proves no person is said to prove none."""
    place = begun(tmp_path, STAGE)
    place.done("amend", "propose", "--set", "workflow_plan=plan.md", "--reason", "Time.")
    place.done("--actor", "agent:hasty", "amend", "approve", "amend-1")
    assert "this policy asks for no person" in " ".join(place.call("report").out.split())


@pytest.mark.forged
def test_an_event_that_no_command_wrote_is_told(tmp_path: Path) -> None:
    """Whoever knows SQL has no command on record for it."""
    place = begun(tmp_path, STAGE)
    for text in ("All is well.", "It converged."):
        append(place.path, "note.logged", {"text": text}, command_id="forged")
    tried = place.json("audit", "bypasses")
    assert tried.code == 7
    assert any("unclaimed" in one["what"] for one in tried.data), tried
