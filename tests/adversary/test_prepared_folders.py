"""Kept outputs, sweep points and artifacts in folders that an agent has manipulated."""

from __future__ import annotations

import os
import shutil
import tracemalloc
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from extensions.machines.service.guard_facts import collect_pattern_facts
from tests.cli.support import Place
from tests.keeping.test_reuse import counted
from tests.machines.place import MachinePlace
from tests.sweeps.support import begun, sweep

pytestmark = pytest.mark.slow

_LARGE = 1 << 20


def offered(folder: Path) -> Place:
    """Create a workflow whose first stage can reuse its kept outputs."""
    place = counted(folder)
    place.done("rerun", "stage-1", "--reason", "once more")
    return place


def test_kept_outputs_are_not_restored_through_a_link(tmp_path: Path) -> None:
    """If the stage folder is a link, the command writes nothing in its target."""
    place, outside = offered(tmp_path), tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(place.path / "stage-1", ignore_errors=True)
    (place.path / "stage-1").symlink_to(outside)
    answer = place.json("stage", "reuse", "stage-1")
    assert list(outside.iterdir()) == []
    assert answer.code in (1, 5, 6), answer


POINTS = b"T\n1\n2\n"


def waits_for_ever(path: Path) -> None:
    """Create a FIFO (named pipe), which blocks every reader."""
    os.mkfifo(path)


def fills_the_memory(path: Path) -> None:
    """Create a sparse file of one tebibyte."""
    path.touch()
    os.truncate(path, 2**40)


@pytest.mark.parametrize("put", [waits_for_ever, fills_the_memory])
def test_unreadable_points_file_does_not_block_a_command(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    """If the points file is a FIFO or huge, the command fails and names the file."""
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
        assert "error in wfctl" not in answer.err


def test_artifact_of_one_tebibyte_does_not_block_a_command(tmp_path: Path) -> None:
    """A huge artifact is reported as changed, and is refused as a new artifact.

    A guard still sees that the file exists.
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
    assert "expected at most 512 MiB" in answer.error["message"]
    assert place.call("transition", "login", "plan").code in (0, 5, 6)


def test_large_files_of_a_pattern_are_hashed_one_by_one(tmp_path: Path) -> None:
    """The memory use does not grow with the number of files."""
    most: list[int] = []
    for number in range(12):
        (tmp_path / f"{number}.md").write_bytes(b"x" * _LARGE)
        tracemalloc.start()
        try:
            fact = collect_pattern_facts(tmp_path, ["*.md"])["*.md"]
            most.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert len(fact.found) == number + 1
    assert most[-1] < most[1] + 2 * _LARGE
