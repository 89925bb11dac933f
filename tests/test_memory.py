"""A test run keeps its temporary files in memory and removes them at its end."""

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
    """Run a program that keeps its files in ``shared`` if possible; return its output."""
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
    """Create a folder that stands for the file system in memory."""
    path = tmp_path / "shm"
    path.mkdir()
    monkeypatch.setattr(memory, "_ENOUGH", 0)
    return path


def test_files_are_kept_in_memory_and_removed(tmp_path: Path) -> None:
    """The folder in memory is writable for all users; a TMPDIR of the user has priority."""
    if memory._is_fit(memory.SHARED):
        place, there, after = asked(memory.SHARED)
        assert Path(place).parent == memory.SHARED
        assert (there, after) == ("True 1777", "False")
    place, _, after = asked(memory.SHARED, TMPDIR=str(tmp_path))
    assert (place, after) == (str(tmp_path), "True")


def test_file_system_without_space_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the file system is missing or full, temporary files go to the usual folder."""
    assert asked(tmp_path / "none")[0] == "/tmp"
    monkeypatch.setattr(memory, "_ENOUGH", 1 << 60)
    assert not memory._is_fit(tmp_path)


def test_files_of_killed_runs_are_removed(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new run removes folders of killed runs, but not those of running tests or others."""
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
