"""The tests keep their files in memory, and nothing of them stays there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import memory

ASK = """
import sys, tempfile
from pathlib import Path
from tests import memory
memory.SHARED = Path(sys.argv[1])
remove = memory.stay_in_memory()
print(tempfile.gettempdir())
with tempfile.NamedTemporaryFile(delete=False) as file:
    print(Path(file.name).exists(), oct(Path(file.name).parent.stat().st_mode)[-4:])
if remove:
    remove()
print(Path(file.name).exists())
Path(file.name).unlink(missing_ok=True)
"""


def asked(shared: Path, **environ: str) -> list[str]:
    """Return what a run that would use this file system says."""
    kept = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(shared)],
        cwd=Path(__file__).parents[1],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a place that stands for the file system in memory."""
    path = tmp_path / "shm"
    path.mkdir()
    monkeypatch.setattr(memory, "_ENOUGH", 0)
    return path


def test_files_lie_in_memory_and_are_removed(tmp_path: Path) -> None:
    """For every user, as those of /tmp; somebody's TMPDIR wins, and its files stay."""
    if memory._is_fit(memory.SHARED):
        place, there, after = asked(memory.SHARED)
        assert Path(place).parent == memory.SHARED
        assert (there, after) == ("True 1777", "False")
    place, _, after = asked(memory.SHARED, TMPDIR=str(tmp_path))
    assert (place, after) == (str(tmp_path), "True")


def test_a_place_without_room_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is not there; the run goes on where files lie otherwise."""
    assert asked(tmp_path / "none")[0] == "/tmp"
    monkeypatch.setattr(memory, "_ENOUGH", 1 << 60)
    assert not memory._is_fit(tmp_path)


def test_what_a_killed_run_left_is_removed(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what a living one has, nor what is no run's."""
    with subprocess.Popen(["true"]) as ended:
        pass
    for name in (f"wfctl-tests-{ended.pid}-a", f"wfctl-tests-{os.getpid()}-b", "other"):
        (shared / name / "deep").mkdir(parents=True)
    monkeypatch.setattr(memory, "SHARED", shared)
    memory._remove_what_the_dead_left()
    assert sorted(path.name for path in shared.iterdir()) == [
        "other",
        f"wfctl-tests-{os.getpid()}-b",
    ]
