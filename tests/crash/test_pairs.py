"""Pairs of events between two sessions, judged by facts outside the root.

In a covering array, every two values of any two factors occur together in at least one row.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import conftest as cluster
from tests.crash.cells import Backend
from tests.crash.covering import covering, every_pair, pairs_of, so_far
from tests.crash.damage import DAMAGES, FILES
from tests.crash.damage import strike as damage
from tests.crash.placing import SCRATCH, at_work, machine_of, placed, strike
from tests.crash.support import PATIENCE, Workflow, until
from tests.crash.test_lives import begin, begin_anew, let_go
from tests.crash.victims import Victim
from tests.rounds import rounds

slurm_conf, slurm, sshd = cluster.slurm_conf, cluster.slurm, cluster.sshd

#: Prefix of the backends of a sweep. Its tasks run next to the files of the root, so no sweep runs
#: over SSH.
_SWEEP = "Sweep on "
FACTORS: dict[str, tuple[str, ...]] = {
    "life": ("first", "anew", "restored"),
    "work": (*Backend, *(f"{_SWEEP}{one}" for one in Backend if not one.is_far)),
    "scratch": ("inside", "shared"),
    "root": ("same", "moved", "copied", "cancelled"),
    "host": ("same", "renamed"),
    "clock": ("right", "back"),
    "file": ("none", *FILES, ".attempts/*/place.json"),
    "damage": tuple(DAMAGES),
    "kill": ("nobody", "session", "job", "everything"),
}
#: Factors whose pairs come first: all except the damaged file and its damage.
DEAR = tuple(name for name in FACTORS if name not in ("file", "damage"))
#: Number of additional rows that `make crash` tests, which change every day.
_DAILY = 4
_VICTIMS = {"session": Victim.SESSION, "job": Victim.JOB, "everything": Victim.EVERYTHING}
_RENAMED = (
    "import os, socket, sys; socket.sethostname('renamed'); os.execvp(sys.argv[1], sys.argv[1:])"
)


@dataclass(frozen=True)
class Row:
    """One row of the covering array: a value for each factor."""

    values: tuple[str, ...]

    def __getitem__(self, factor: str) -> str:
        return self.values[list(FACTORS).index(factor)]

    def __str__(self) -> str:
        return "-".join(value.split("/")[-1].replace("?", "") for value in self.values)


def rows() -> list[Row]:
    """Return the rows of the covering array, in which every pair occurs at least once."""
    return [Row(tuple(row.values())) for row in covering(FACTORS, DEAR)]


def few() -> int:
    """Return the number of rows that `make crash` tests every day. `make soak` tests all rows."""
    return so_far([as_factors(row) for row in rows()], DEAR)


def as_factors(row: Row) -> dict[str, str]:
    """Return a row as a dictionary from factor to value."""
    return dict(zip(FACTORS, row.values, strict=True))


def test_few_rows_contain_every_pair() -> None:
    """The covering array contains every pair in nearly the smallest number of rows."""
    found = [as_factors(row) for row in rows()]
    assert {pair for row in found for pair in pairs_of(row)} == set(every_pair(FACTORS))
    most = sorted(len(values) for values in FACTORS.values())[-2:]
    assert most[0] * most[1] <= len(found) <= most[0] * most[1] + 16


def test_first_rows_contain_every_pair_without_damaged_files() -> None:
    """The rows that `make crash` tests contain every pair of the other factors."""
    dear = {name: FACTORS[name] for name in DEAR}
    found = [{name: row[name] for name in DEAR} for row in rows()[: few()]]
    assert {pair for row in found for pair in pairs_of(row)} == set(every_pair(dear))
    assert few() <= 30


def call(workflow: Workflow, row: Row, *arguments: str) -> None:
    """Run a command after the events of the row, under another hostname if the row says so."""
    done = _renamed(workflow, *arguments) if row["host"] == "renamed" else workflow.call(*arguments)
    assert done.returncode in (0, 5, 6), (arguments, done.returncode, done.stdout, done.stderr)


def _renamed(workflow: Workflow, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "cli.main", *arguments]
    return subprocess.run(
        ["unshare", "--uts", sys.executable, "-c", _RENAMED, *program],
        cwd=workflow.root,
        env=workflow.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def ran(workflow: Workflow) -> list[str]:
    """Return each start of a command: the attempt with its mark, and its input."""
    path = workflow.root.parent / "begun"
    return path.read_text().splitlines() if path.exists() else []


def _tasks(row: Row) -> int:
    """Return the number of tasks of the stage, or 0 if it is not a sweep."""
    return 2 if row["work"].startswith(_SWEEP) else 0


def _backend(row: Row) -> Backend:
    return Backend(row["work"].removeprefix(_SWEEP))


def befall(workflow: Workflow, row: Row, machine: str | None) -> Workflow:
    """Launch the stage, apply all events of the row, and return the root to continue with."""
    shared, tasks = row["scratch"] == "shared", _tasks(row)
    begin(workflow, "old", shared=shared, waits=True, machine=machine, tasks=tasks)
    workflow.succeed("dispatch", "stage-1")
    until(lambda: len(ran(workflow)) == (tasks or 1))
    saved = workflow.root.parent / "saved"
    shutil.copytree(workflow.root / ".wfctl", saved)
    if row["kill"] != "nobody":
        strike(workflow, _VICTIMS[row["kill"]])
    let_go(workflow)
    until(lambda: not at_work(workflow))
    if row["kill"] == "nobody":
        until((workflow.root / "stage-1/DPDISP_DONE").exists)
    strike(workflow, Victim.SESSION)
    for folder, pattern in _places(workflow, row["file"]):
        damage(folder, pattern, row["damage"])
    for launch in workflow.root.glob("stage-1/.attempts/*/launch.json"):
        if row["clock"] == "back":
            os.utime(launch)
    _live_on(workflow, row, saved, machine)
    return _carried(workflow, row)


def _places(workflow: Workflow, pattern: str) -> Iterator[tuple[Path, str]]:
    """Yield each folder with a matching or possible file, and the pattern relative to it."""
    if pattern == "none":
        return
    near, far = workflow.root / "stage-1", workflow.root.parent / SCRATCH / "w-lives/stage-1"
    if "*" not in pattern or any(near.glob(pattern)):
        yield near, pattern
    outside = pattern.removeprefix(".attempts/").replace("*/work/", "*/")
    if "*" in pattern and any(far.glob(outside)):
        yield far, outside


def _live_on(workflow: Workflow, row: Row, saved: Path, machine: str | None) -> None:
    if row["life"] == "anew":
        begin_anew(workflow, "log")
        shared = row["scratch"] == "shared"
        begin(workflow, "new", shared=shared, machine=machine, tasks=_tasks(row))
    elif row["life"] == "restored":
        shutil.rmtree(workflow.root / ".wfctl")
        shutil.copytree(saved, workflow.root / ".wfctl")


def _carried(workflow: Workflow, row: Row) -> Workflow:
    there = replace(workflow, root=workflow.root.with_name(row["root"]))
    match row["root"]:
        case "moved":
            workflow.root.rename(there.root)
            call(there, row, "--root-is", "moved", "note", "here")
        case "copied":
            _copy(workflow, there, row)
        case "cancelled":
            _copy(workflow, there, row)
            _make_anew(workflow, there, row)
        case _:
            return workflow
    return there


def _copy(workflow: Workflow, there: Workflow, row: Row) -> None:
    shutil.copytree(workflow.root, there.root, symlinks=True, ignore=_no_pipes)
    call(there, row, "--root-is", "copied", "note", "here")


def _make_anew(workflow: Workflow, there: Workflow, row: Row) -> None:
    """Cancel the stage in the original root, and run it in the copy.

    A ready stage, as in a new workflow, needs neither a cancel nor a retry.
    """
    for root, words in ((workflow, ("cancel",)), (there, ("fail", "--error", "copied"))):
        call(root, row, "stage", words[0], "stage-1", *words[1:])
    call(there, row, "stage", "retry", "stage-1", "--fix", "computed here")


def _no_pipes(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(folder) / name).is_fifo()]


def cases() -> list[Any]:
    """Return the rows as test cases. Only root can set another hostname for a process."""
    found = rounds(rows(), few=few(), daily=_DAILY)
    return [
        pytest.param(*case.values, marks=[*case.marks, pytest.mark.root])
        if case.values[0]["host"] == "renamed"
        else case
        for case in found
    ]


@pytest.mark.slow
@pytest.mark.parametrize("row", cases(), ids=str)
def test_whatever_comes_together_loses_and_confuses_nothing(
    workflow: Workflow, row: Row, request: pytest.FixtureRequest
) -> None:
    """After any pair of events, each attempt ran once and each result belongs to its root.

    No command exits with code 1.
    """
    backend = _backend(row)
    with placed(workflow, backend, request) as (there, far):
        machine = machine_of(there, backend, far, shared=row["scratch"] == "shared")
        check(there, row, machine)


def check(workflow: Workflow, row: Row, machine: str | None) -> None:
    """Apply the events of the row, continue the workflow, and check the result."""
    there = befall(workflow, row, machine)
    bring_back(there, row)
    starts = ran(workflow)
    assert set(Counter(line.split()[0] for line in starts).values()) == {1}, starts
    check_kept(there, row, starts)
    if row["root"] == "copied":
        # The copy must not disturb the original, so the original is recovered too.
        bring_back(workflow, row)
        check_completed(workflow, row)


def bring_back(workflow: Workflow, row: Row) -> None:
    """Recover a workflow, including the decisions that a person is asked for."""
    go_on(workflow, row)
    if _asks_a_person(row):
        answer(workflow, row)
        go_on(workflow, row)


def go_on(workflow: Workflow, row: Row) -> None:
    """Call `rehydrate` and `run` twice, which recovers a workflow."""
    for command in ("rehydrate", "run", "rehydrate", "run"):
        call(workflow, row, command)


def _asks_a_person(row: Row) -> bool:
    """Return whether the fate of the job is unknown, so that a person must decide."""
    if row["life"] == "anew":
        # The log of the earlier workflow is lost, so only these files identify its job.
        names = ("submission.json", "machine.json", "*_job_id")
        return row["file"].split("/")[-1] in names and _backend(row) is not Backend.SHELL
    # If the root was moved and the job was killed, a local Slurm does not show whether the job has
    # ended.
    ended = row["kill"] in ("job", "everything")
    return _backend(row) is Backend.SLURM and row["root"] == "moved" and ended


def answer(workflow: Workflow, row: Row) -> None:
    """Decide as the message of wfctl suggests. Do nothing if no decision is needed."""
    found = json.loads((workflow.root / "workflow-state.json").read_bytes())["stages"][0]
    if row["life"] == "anew" and found["status"] == "failed":
        assert "an attempt that is not in this log" in found["last_error"]
        for folder in workflow.root.glob("stage-1/.attempts/att-*"):
            folder.rename(workflow.root.with_name(f"{workflow.root.name} {folder.name}"))
    elif row["life"] != "anew" and found["status"] == "running":
        call(workflow, row, "stage", "fail", "stage-1", "--error", "its job is dead")
    else:
        return
    call(workflow, row, "stage", "retry", "stage-1", "--fix", "as the message said")


def check_kept(there: Workflow, row: Row, starts: list[str]) -> None:
    """Check that the stage is completed in this root, or still belongs to the original."""
    own = row["life"] == "anew" or row["root"] != "copied"
    # Only a single command is computed again in the copy: completed tasks are copied with the root
    # and are valid there.
    computes = row["root"] == "cancelled" and row["life"] != "anew"
    made_anew = computes and not _tasks(row)
    found = json.loads((there.root / "workflow-state.json").read_bytes())["stages"][0]
    if own:
        check_completed(there, row)
    else:
        assert found["status"] in ("running", "preparing"), found
    again = row["kill"] in ("job", "everything") and row["life"] != "anew"
    expected = 1 + (row["life"] == "anew") + ((again or made_anew) and own)
    assert len(starts) == expected * (_tasks(row) or 1), starts


def check_completed(workflow: Workflow, row: Row) -> None:
    """Check that the stage is completed and its output belongs to its own input."""
    found = json.loads((workflow.root / "workflow-state.json").read_bytes())["stages"][0]
    assert found["status"] == "completed", (found["status"], found["last_error"])
    word = "new" if row["life"] == "anew" else "old"
    folders = [f"tasks/T={number}/" for number in range(_tasks(row))] or [""]
    for folder in folders:
        assert (workflow.root / f"stage-1/{folder}out.txt").read_text() == f"{word}\n"
    assert socket.gethostname() != "renamed"
