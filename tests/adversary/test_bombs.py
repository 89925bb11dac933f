"""Plans and archives that are small, and would fill any memory or any disk."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from tests.adversary.archives import added, forged
from tests.cli.support import HERE, Answer, Place, call, write_plan
from tests.exports.support import handed_over

#: Bytes of memory that a command may take: far more than any needs.
MEMORY = 1 << 30


def frugal(folder: Path, *words: str) -> Answer:
    """Call the real program with little memory."""
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *words],
        cwd=folder,
        env={"PYTHONPATH": str(HERE), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def _aliases(levels: int, many: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * many)}]" for n in range(1, levels)]
    return "\n".join(lines)


def _merges(levels: int) -> str:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, levels)]
    return "\n".join(lines)


PLANS = {
    "aliases.yaml": _aliases(12, 9),
    "merges.yaml": _merges(40),
    "deep.json": "[" * 100_000,
    "rather-deep.json": "[" * 400 + "]" * 400,
    "deep.toml": "a = " + "[" * 100_000,
    "dotted.toml": ".".join(["a"] * 5_000) + " = 1",
    "deep.yaml": "[" * 20_000,
    "nested.yaml": "\n".join(" " * n + "a:" for n in range(3_000)),
    "long.json": '{"workflow_id": "' + "x" * (20 << 20) + '"}',
    "long-number.json": '{"version": ' + "9" * 5_000 + "}",
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_would_fill_the_memory_is_refused(name: str, tmp_path: Path) -> None:
    """With its name and what is wrong with it, and never as a fault of ours."""
    (tmp_path / name).write_text(PLANS[name])
    answer = frugal(tmp_path, "-o", "json", "init", name)
    assert answer.code == 1, answer
    assert answer.error["code"] in ("unreadable_plan", "invalid_plan"), answer
    assert not (tmp_path / ".wfctl").exists()


@pytest.fixture
def honest(tmp_path: Path) -> Path:
    """Make the archive of a small workflow."""
    root = tmp_path / "origin"
    root.mkdir()
    assert call("--root", str(root), "init", str(write_plan(tmp_path))).code == 0
    return handed_over(Place(root), tmp_path)


def refused(tmp_path: Path, file: Path) -> str:
    """Import an archive that must not be taken, with little memory; return why it is not."""
    answer = frugal(tmp_path, "-o", "json", "import", str(file), "--into", "made")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive"), answer
    assert not (tmp_path / "made").exists()
    return str(answer.error["message"])


@pytest.mark.long
def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    """A megabyte that becomes a gigabyte, wherever in it that lies."""
    file = tmp_path / "bomb.zip"
    with ZipFile(file, "w", ZIP_DEFLATED) as archive, archive.open("manifest.json", "w") as big:
        for _ in range(512):
            big.write(b" " * (2 << 20))
    assert "once they are unpacked" in refused(tmp_path, file)


def test_an_archive_of_another_size_than_it_says_is_refused(honest: Path, tmp_path: Path) -> None:
    """The manifest's sizes are held to."""
    file = tmp_path / "other.zip"
    with ZipFile(honest) as source, ZipFile(file, "w") as archive:
        manifest = json.loads(source.read("manifest.json"))
        manifest["files"]["progress.log"]["bytes"] += 1
        for name in source.namelist():
            changed = json.dumps(manifest).encode() if name == "manifest.json" else None
            archive.writestr(name, changed or source.read(name))
    assert "the manifest says" in refused(tmp_path, file)


def test_an_archive_with_a_deep_event_is_refused(honest: Path, tmp_path: Path) -> None:
    """However deep it goes: the fold would not come back from it."""
    deep: object = []
    for _ in range(800):
        deep = [deep]
    more = added("checkpoint.recorded", {"stage": "stage-1", "checkpoint": deep})
    refused(tmp_path, forged(honest, tmp_path / "deep.zip", more))


def test_an_archive_of_one_long_line_is_refused(honest: Path, tmp_path: Path) -> None:
    """A line is never read whole before its length is known."""
    more = added("note.logged", {"text": "x" * (40 << 20)})
    refused(tmp_path, forged(honest, tmp_path / "long.zip", more))
