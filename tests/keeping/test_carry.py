"""A new attempt of a simulation continues from the restart file of the previous attempt."""

from __future__ import annotations

import os
import signal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place
from tests.keeping.support import made, stage
from tests.reconciler.support import until

pytestmark = pytest.mark.slow
OUT = ["stage-1/end.txt"]
#: A simulation of ten steps. Step 5 waits until the test kills the job or creates `go`, and step 7
#: fails unless the file `on` exists.
STEPS = """
n=$(cat run.restart 2> /dev/null || echo 0)
while [ "$n" -lt 10 ]; do
    n=$((n + 1))
    echo "$n" >> {root}/trace
    echo "$n" > run.restart
    [ "$n" != 5 ] || {{ echo $BASHPID > {root}/pid; until [ -e {root}/go ]; do sleep 0.05; done; }}
    [ "$n" != 7 ] || [ -e {root}/on ] || exit 3
done
echo "$n" > end.txt
"""
ALL = [str(n) for n in range(1, 11)]


def simulation(folder: Path, **fields: Any) -> Place:
    """Return a workflow with one stage that runs the simulation."""
    parameters = {"carry": ["*.restart"], **fields.pop("parameters", {})}
    place = made(folder, stage(1, "bash steps.sh", outputs=OUT, parameters=parameters, **fields))
    (place.path / "stage-1").mkdir()
    (place.path / "stage-1/steps.sh").write_text(STEPS.format(root=place.path))
    return place


def trace(place: Place) -> list[str]:
    """Return the numbers of the computed steps, in the order of their computation."""
    return (place.path / "trace").read_text().split()


def started(place: Place) -> list[dict[str, Any]]:
    """Return the data of all recorded starts of attempts."""
    return [event["data"] for event in place.done("events", "--type", "attempt.started")]


def test_killed_simulation_continues_from_its_restart_file(tmp_path: Path) -> None:
    """The second attempt repeats no step; the log names the restart file and its attempt."""
    place = simulation(tmp_path)
    (place.path / "on").touch()
    place.done("dispatch", "stage-1")
    until(lambda: (place.path / "pid").exists() and (place.path / "pid").read_text().strip())
    os.kill(int((place.path / "pid").read_text()), signal.SIGKILL)
    (place.path / "go").touch()
    assert place.call("run").code == 0
    assert trace(place) == ALL
    first, second = started(place)
    assert (first["carried"], first["carried_from"]) == ([], None)
    assert second["carried_from"] == "att-0001"
    digest = sha256(b"5\n").hexdigest()
    assert second["carried"] == [{"path": "stage-1/run.restart", "size": 2, "sha256": digest}]
    assert "att-0002 goes on from what att-0001 left: stage-1/run.restart" in place.log()
    assert [one["path"] for one in second["inputs"]] == ["stage-1/steps.sh"]


@pytest.mark.long
def test_retry_continues_from_the_files_of_a_failed_attempt(tmp_path: Path) -> None:
    """After a failure, the retry starts from the newest restart file and repeats no step."""
    place = simulation(tmp_path)
    (place.path / "go").touch()
    assert place.call("run").code == 6
    (place.path / "on").touch()
    place.done("stage", "retry", "stage-1", "--fix", "the disk was full")
    assert place.call("run").code == 0
    assert trace(place) == ALL
    assert (place.path / "stage-1/run.restart").read_text() == "10\n"
    assert list(place.path.glob("stage-1/.attempts/*/work/*/stage-1/.attempts")) == []


@pytest.mark.long
def test_restart_file_of_other_inputs_is_not_used(tmp_path: Path) -> None:
    """If an input changed before the retry, the job starts from step 1, and wfctl says why."""
    place = simulation(tmp_path, inputs=["in.txt"])
    (place.path / "in.txt").write_text("1\n")
    (place.path / "go").touch()
    assert place.call("run").code == 6
    (place.path / "on").touch()
    (place.path / "in.txt").write_text("2\n")
    place.done("stage", "retry", "stage-1", "--fix", "another input")
    answer = place.call("run")
    assert answer.code == 0
    assert (
        "the new attempt does not continue from att-0001, because in.txt has changed since"
        in answer.err
    )
    assert trace(place) == [*ALL[:7], *ALL]


@pytest.mark.long
def test_edited_restart_file_is_not_used(tmp_path: Path) -> None:
    """If a user edited the restart file after the attempt, the job starts from step 1."""
    place = simulation(tmp_path)
    (place.path / "go").touch()
    assert place.call("run").code == 6
    (place.path / "on").touch()
    (place.path / "stage-1/run.restart").write_text("9\n")
    place.done("stage", "retry", "stage-1", "--fix", "again")
    assert place.call("run").code == 0
    assert trace(place) == [*ALL[:7], *ALL]
    assert started(place)[1]["carried"] == []
