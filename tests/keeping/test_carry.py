"""A simulation that was struck goes on from its restart file, and the log says from what."""

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
#: Ten steps, each told to a trace outside; at the fifth it waits to be struck, unless it is let go.
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
    """Return a workflow whose one stage is such a simulation."""
    parameters = {"carry": ["*.restart"], **fields.pop("parameters", {})}
    place = made(folder, stage(1, "bash steps.sh", outputs=OUT, parameters=parameters, **fields))
    (place.path / "stage-1").mkdir()
    (place.path / "stage-1/steps.sh").write_text(STEPS.format(root=place.path))
    return place


def trace(place: Place) -> list[str]:
    """Return the steps that were computed, in their order."""
    return (place.path / "trace").read_text().split()


def started(place: Place) -> list[dict[str, Any]]:
    """Return the data of each attempt's start."""
    return [event["data"] for event in place.done("events", "--type", "attempt.started")]


def test_a_simulation_that_was_killed_goes_on_from_its_restart_file(tmp_path: Path) -> None:
    """No step is computed twice, and the log names file, digest and attempt."""
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


def test_a_retry_goes_on_from_what_a_failure_left(tmp_path: Path) -> None:
    """Each time from the newest, and the stage's folder ends with the last one."""
    place = simulation(tmp_path)
    (place.path / "go").touch()
    assert place.call("run").code == 6
    (place.path / "on").touch()
    place.done("stage", "retry", "stage-1", "--fix", "the disk was full")
    assert place.call("run").code == 0
    assert trace(place) == ALL
    assert (place.path / "stage-1/run.restart").read_text() == "10\n"
    assert list(place.path.glob("stage-1/.attempts/*/work/*/stage-1/.attempts")) == []


def test_what_was_computed_from_something_else_is_not_carried_on(tmp_path: Path) -> None:
    """An input that changed since begins anew, and that is said."""
    place = simulation(tmp_path, inputs=["in.txt"])
    (place.path / "in.txt").write_text("1\n")
    (place.path / "go").touch()
    assert place.call("run").code == 6
    (place.path / "on").touch()
    (place.path / "in.txt").write_text("2\n")
    place.done("stage", "retry", "stage-1", "--fix", "another input")
    answer = place.call("run")
    assert answer.code == 0
    assert "nothing is carried on from att-0001: in.txt has changed since" in answer.err
    assert trace(place) == [*ALL[:7], *ALL]


def test_a_file_that_somebody_edited_is_not_carried_on(tmp_path: Path) -> None:
    """It is not what the attempt left."""
    place = simulation(tmp_path)
    (place.path / "go").touch()
    assert place.call("run").code == 6
    (place.path / "on").touch()
    (place.path / "stage-1/run.restart").write_text("9\n")
    place.done("stage", "retry", "stage-1", "--fix", "again")
    assert place.call("run").code == 0
    assert trace(place) == [*ALL[:7], *ALL]
    assert started(place)[1]["carried"] == []
