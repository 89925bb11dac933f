"""Kept outputs, points of a sweep and artifacts, in folders that an agent has prepared."""

from __future__ import annotations

import os
import shutil
import tracemalloc
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from service.machines.evidence import look
from tests.cli.support import Place
from tests.keeping.test_reuse import counted
from tests.machines.place import MachinePlace
from tests.sweeps.support import begun, sweep

pytestmark = pytest.mark.slow

_LARGE = 1 << 20


def offered(folder: Path) -> Place:
    """Make a workflow whose first stage could take the outputs that are kept of it."""
    place = counted(folder)
    place.done("rerun", "stage-1", "--reason", "once more")
    return place


def test_kept_outputs_are_put_nowhere_outside(tmp_path: Path) -> None:
    """Given a link in the place of the stage's folder, then nothing appears where it leads."""
    place, outside = offered(tmp_path), tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(place.path / "stage-1", ignore_errors=True)
    (place.path / "stage-1").symlink_to(outside)
    answer = place.json("stage", "reuse", "stage-1")
    assert list(outside.iterdir()) == []
    assert answer.code in (1, 5, 6), answer


POINTS = b"T\n1\n2\n"


def waits_for_ever(path: Path) -> None:
    """Put what nobody writes to in the place of a file."""
    os.mkfifo(path)


def fills_the_memory(path: Path) -> None:
    """Put a file of a terabyte there, which takes no room on the disk."""
    path.touch()
    os.truncate(path, 2**40)


@pytest.mark.parametrize("put", [waits_for_ever, fills_the_memory])
def test_points_that_are_no_file_of_ours_stop_no_command(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    """Given a pipe or an endless file in the place of the points, then an error that names it."""
    map_ = {"file": "points.csv", "sha256": sha256(POINTS).hexdigest()}
    place = begun(tmp_path, sweep(tmp_path / "trace", map_))
    (place.path / "points.csv").unlink(missing_ok=True)
    put(place.path / "points.csv")
    run = place.call("run")
    assert run.code == 6, run
    assert "points.csv: expected" in run.out
    for words in (["status"], ["tasks", "stage-1"]):
        answer = place.call(*words)
        assert answer.code in (0, 1, 5, 6), (words, answer)
        assert "fault of wfctl" not in answer.err


def test_an_artifact_that_would_fill_the_memory_stops_no_command(tmp_path: Path) -> None:
    """Given an artifact that grew to a terabyte, then it is told as changed; a new one is refused.

    A guard sees that something is there.
    """
    place = MachinePlace(tmp_path)
    place.init("login")
    place.write("design.json", {"a": 1})
    place.done("update", "login", "artifacts.design=design.json")
    os.truncate(tmp_path / "design.json", 2**40)
    (drift,) = place.done("rehydrate", "login")["drift"]
    assert (drift["kind"], drift["file"]) == ("artifact_changed", "design.json")
    answer = place.call("update", "login", "artifacts.plan=design.json")
    assert answer.code == 1
    assert "expected 512 MiB at most" in answer.error["message"]
    assert place.call("transition", "login", "plan").code in (0, 5, 6)


def test_files_of_one_pattern_are_looked_at_one_by_one(tmp_path: Path) -> None:
    """Given more large files, then no more memory is used."""
    most: list[int] = []
    for number in range(12):
        (tmp_path / f"{number}.md").write_bytes(b"x" * _LARGE)
        tracemalloc.start()
        try:
            fact = look(tmp_path, ["*.md"])["*.md"]
            most.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert len(fact.found) == number + 1
    assert most[-1] < most[1] + 2 * _LARGE
