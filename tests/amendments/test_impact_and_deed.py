"""The predicted and the actual computations of each kind of amendment are equal.

Each command appends its name to a file outside the root, which counts the runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import rounds
from tests.cli.support import Place
from tests.crash.support import until
from tests.sweeps.support import begun

KINDS = ("stage", "sweep")
REFUTED = "failed by its verdict"
STATUSES = ("completed", REFUTED, "failed by its command", "running", "pending")
#: For each change: its effect on existing results, and the options of `amend propose`.
COMPUTES, JUDGES, NEITHER = "computes", "judges", "neither"
INSERT = (
    '{"id": "nine", "name": "Nine", "depends_on": ["stage-1"], "outputs": ["nine/n"], '
    '"parameters": {"command": "echo > n"}}'
)
CHANGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "a parameter": (COMPUTES, ("--set", "parameters.flavour=2")),
    "verify": (JUDGES, ("--set", "parameters.verify=test -d stage-1")),
    "criteria": (JUDGES, ("--type", "criteria_change", "--set", "success_criteria=It is good")),
    "time": (NEITHER, ("--set", "parameters.expected_seconds=2")),
    "time limit": (NEITHER, ("--set", "parameters.time_limit=300")),
    "resources": (NEITHER, ("--set", "parameters.resources.memory_gb=4")),
    "name": (NEITHER, ("--set", "name=Other")),
    "rerun": (COMPUTES, ("--type", "stage_rerun")),
    "skip": (NEITHER, ("--type", "stage_skip", "--rewire")),
    "insert": (NEITHER, ("--type", "stage_insert", "--insert", INSERT, "--dependent", "stage-2")),
}
OF_SWEEPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "task_verify": (JUDGES, ("--set", "parameters.task_verify=test -s e.json")),
    "tolerate": (JUDGES, ("--set", "parameters.tolerate=0.1")),
    "metrics": (COMPUTES, ("--set", 'parameters.metrics={"e": "e.json#/e"}')),
    "at_once": (NEITHER, ("--set", "parameters.at_once=2")),
    "first": (NEITHER, ("--set", "parameters.map.first=1")),
    "points": (COMPUTES, ("--set", 'parameters.map={"points": [{"T": 2}, {"T": 3}]}')),
}
#: Changes after which a command runs differently but gives the same result.
OTHERWISE_RUN = ("at_once", "time limit", "skip")
#: Changes that are tested in every status of a single-job stage.
BOTH = ("a parameter", "verify", "criteria", "rerun")
#: Further changes that are tested while the stage is running.
OTHERS_WHILE_RUNNING = ("insert", "time", "time limit", "resources")
CASES = [
    *(("stage", what, before) for what in BOTH for before in STATUSES),
    *(("stage", what, "completed") for what in CHANGES if what not in BOTH),
    *(("sweep", what, before) for what in OF_SWEEPS for before in STATUSES[:-1]),
    *(("sweep", what, "completed") for what in CHANGES),
    *((kind, what, "running") for kind in KINDS for what in OTHERS_WHILE_RUNNING),
    *(("sweep", what, "running") for what in ("verify", "criteria")),
]

#: Run a sixth of the cases before each commit, chosen so that every kind and status occurs.
CASES_NOW_AND_LATER = rounds.first(
    [case for start in range(6) for case in CASES[start::6]], now=len(CASES[::6])
)


def _stage(folder: Path, kind: str) -> dict[str, Any]:
    """Return a stage whose end depends on files that the test creates."""
    bad = f"[ ! -e {folder}/bad ]"
    good = f"[ ! -e {folder}/refuted ]"
    name = "${WFCTL_TASK:-stage-1}"
    # The first run that can move the file `hold` waits until the test creates `go`. The stage then
    # counts as running.
    wait = f"until [ -e {folder}/go ]; do sleep 0.05; done"
    hold = f"! mv {folder}/hold-{name} {folder}/held-{name} 2> /dev/null || {wait}"
    said = "echo '{\"e\": 1}' > e.json"
    command = f"echo {name} >> {folder}/trace; {hold}; {bad} && {said}"
    judged = "task_verify" if kind == "sweep" else "verify"
    parameters: dict[str, Any] = {"command": command, "flavour": 1, judged: good}
    outputs = ["stage-1/e.json"]
    if kind == "sweep":
        parameters |= {"map": {"points": [{"T": 1}, {"T": 2}]}, "task_outputs": ["e.json"]}
        outputs = ["stage-1/tasks.csv"]
    return {"id": "stage-1", "name": "One", "outputs": outputs, "parameters": parameters}


def _second(folder: Path, first: dict[str, Any]) -> dict[str, Any]:
    made = first["outputs"][0]
    command = f"echo stage-2 >> {folder}/trace; cat ../{made} | wc -c > out.txt"
    return {
        "id": "stage-2",
        "name": "Two",
        "depends_on": ["stage-1"],
        "inputs": [made],
        "outputs": ["stage-2/out.txt"],
        "parameters": {"command": command},
    }


def _ran(folder: Path) -> Counter[str]:
    trace = folder / "trace"
    return Counter(trace.read_text().split() if trace.exists() else [])


def _completed(place: Place, folder: Path) -> None:
    place.done("run")


def _refuted(place: Place, folder: Path) -> None:
    (folder / "refuted").touch()
    assert place.json("run").code == 6
    (folder / "refuted").unlink()


def _crashed(place: Place, folder: Path) -> None:
    (folder / "bad").touch()
    assert place.json("run").code == 6
    (folder / "bad").unlink()


def _running(place: Place, folder: Path) -> None:
    for name in ("stage-1", "T=1", "T=2"):
        (folder / f"hold-{name}").touch()
    place.done("dispatch", "stage-1")
    each = 2 if "map" in place.done("show", "stage-1")["parameters"] else 1
    until(lambda: _ran(folder).total() == each)


def _pending(place: Place, folder: Path) -> None:
    pass


BEFORE: dict[str, Callable[[Place, Path], None]] = dict(
    zip(STATUSES, (_completed, _refuted, _crashed, _running, _pending), strict=True)
)


def _finished(place: Place) -> None:
    """Run the workflow to its end, and retry a failed stage first."""
    if place.done("status")["stages"][0]["status"] == "failed":
        place.done("stage", "retry", "stage-1", "--fix", "The disk was freed.")
    answer = place.json("run")
    left = [stage["status"] for stage in place.done("status")["stages"]]
    # A stage in post_processing waits for the judgement of a person, but all computations have
    # ended.
    assert answer.code == 0 or "post_processing" in left, answer


def _foretold(impact: dict[str, Any]) -> tuple[set[str], int]:
    """Return the stages and the number of tasks that the impact announces to compute."""
    tasks = sum(one["computed"] for one in impact["tasks"].values())
    return {*impact["computed_again"], *(["stage-1"] if tasks else [])}, tasks


def _stages(ran: Counter[str]) -> set[str]:
    return {"stage-1" if name.startswith("T=") else name for name in ran}


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(("kind", "what", "before"), CASES_NOW_AND_LATER)
def test_predicted_computations_equal_actual_computations(
    tmp_path: Path, kind: str, what: str, before: str
) -> None:
    """The commands that run after the approval are those that the impact predicted."""
    effect, words = (CHANGES | OF_SWEEPS)[what]
    first = _stage(tmp_path, kind)
    place = begun(tmp_path, first, _second(tmp_path, first))
    BEFORE[before](place, tmp_path)
    stage = () if what == "insert" else ("--stage", "stage-1")
    made = place.json("amend", "propose", *stage, "--reason", "Better.", *words)
    if what == "rerun" and before == "pending":
        assert made.error["code"] == "invalid_amendment"
        return
    assert made.code == 0, made
    shown = place.done("amend", "show", "amend-1")
    then = _ran(tmp_path)
    place.done("amend", "approve", "amend-1")
    (tmp_path / "go").touch()
    _finished(place)
    again = _ran(tmp_path) - then
    said, tasks = _foretold(shown["impact"])
    # Do not compare if `_finished` retries a failed stage that the amendment does not affect.
    if effect != NEITHER or not before.startswith("failed"):
        assert _stages(again) & _stages(then) == said & _stages(then)
        assert not tasks or before == "pending" or _tasks(again) == tasks
    if effect == JUDGES and (
        before == "completed" or (before == REFUTED and _is_its_own(kind, what))
    ):
        assert not _stages(again) & _stages(then), (
            "results that are there are judged, and not computed"
        )

    if effect != COMPUTES and before == "running" and what not in OTHERWISE_RUN:
        assert shown["impact"]["stopped"] == {}
        assert not _stages(again) & _stages(then), "what is under way goes on"
        assert "superseded" not in _outcomes(place)


def _outcomes(place: Place) -> list[str]:
    return [one["outcome"] for one in place.done("show", "stage-1")["attempts"]]


def _tasks(ran: Counter[str]) -> int:
    return sum(number for name, number in ran.items() if name.startswith("T="))


def _is_its_own(kind: str, what: str) -> bool:
    """Return whether this change affects the check that failed."""
    return what in (("verify", "criteria") if kind == "stage" else ("task_verify",))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_running_attempt_is_checked_by_the_new_criteria(tmp_path: Path, kind: str) -> None:
    """After new criteria, tasks that passed the old check are only checked again."""
    place = begun(tmp_path, _stage(tmp_path, kind))
    (tmp_path / f"hold-{'T=2' if kind == 'sweep' else 'stage-1'}").touch()
    place.done("dispatch", "stage-1")
    done = tmp_path / "root/stage-1/tasks/T=1"
    until(lambda: kind == "stage" or done.is_dir())
    until(lambda: _ran(tmp_path).total() == (2 if kind == "sweep" else 1))
    name = "task_verify" if kind == "sweep" else "verify"
    change = ("--stage", "stage-1", "--set", f"parameters.{name}=test -e {tmp_path}/better")
    place.done("amend", "propose", "--reason", "Stricter.", *change)
    shown = place.call("amend", "show", "amend-1").out
    assert "lets stage-1 (att-0001) continue and checks it by the new criteria" in shown
    place.done("amend", "approve", "amend-1")
    (tmp_path / "go").touch()
    assert place.json("run").code == 6
    assert place.done("show", "stage-1")["status"] == "failed"
    assert _ran(tmp_path).total() == (2 if kind == "sweep" else 1)
    if kind == "sweep":
        assert place.done("tasks", "stage-1")["counts"]["failed"] == 2


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("way", [(), pytest.param(("--sync",), marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", ["completed", REFUTED])
def test_dispatch_checks_kept_results_like_a_run(
    tmp_path: Path, kind: str, before: str, way: tuple[str, ...]
) -> None:
    """After a change of the check alone, `dispatch` and `run` compute nothing again."""
    place = begun(tmp_path, _stage(tmp_path, kind))
    BEFORE[before](place, tmp_path)
    then = _ran(tmp_path)
    name = "task_verify" if kind == "sweep" else "verify"
    change = ("--stage", "stage-1", "--set", f"parameters.{name}=test -d {tmp_path}")
    place.done("amend", "propose", "--reason", "Better.", *change)
    place.done("amend", "approve", "amend-1")
    place.done("dispatch", "stage-1", "--dry-run", *way)
    place.done("dispatch", "stage-1", "--command-id", "once", *way)
    again = place.done("dispatch", "stage-1", "--command-id", "once", *way)
    assert again["repeated"]
    place.done("run")
    assert place.done("show", "stage-1")["status"] == "completed"
    assert _ran(tmp_path) == then
