"""Small plans and archives that would fill the memory or the disk."""

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

#: Memory limit in bytes for a command, far above what any command needs.
MEMORY = 1 << 30


def frugal(folder: Path, *words: str) -> Answer:
    """Run wfctl in a process with a memory limit."""
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
def test_plan_that_would_fill_the_memory_is_refused(name: str, tmp_path: Path) -> None:
    """The command reports a bad plan and not an internal error."""
    (tmp_path / name).write_text(PLANS[name])
    answer = frugal(tmp_path, "-o", "json", "init", name)
    assert answer.code == 1, answer
    assert answer.error["code"] in ("unreadable_plan", "invalid_plan"), answer
    assert not (tmp_path / ".wfctl").exists()


@pytest.fixture
def honest(tmp_path: Path) -> Path:
    """Create the archive of a small workflow."""
    root = tmp_path / "origin"
    root.mkdir()
    assert call("--root", str(root), "init", str(write_plan(tmp_path))).code == 0
    return handed_over(Place(root), tmp_path)


def refused(tmp_path: Path, file: Path) -> str:
    """Import an archive with limited memory, check that it is refused, and return the message."""
    answer = frugal(tmp_path, "-o", "json", "import", str(file), "--into", "made")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive"), answer
    assert not (tmp_path / "made").exists()
    return str(answer.error["message"])


@pytest.mark.long
def test_archive_that_unpacks_to_a_gigabyte_is_refused(tmp_path: Path) -> None:
    """The import refuses a small archive with a gigabyte of content before unpacking it."""
    file = tmp_path / "bomb.zip"
    with ZipFile(file, "w", ZIP_DEFLATED) as archive, archive.open("manifest.json", "w") as big:
        for _ in range(512):
            big.write(b" " * (2 << 20))
    assert "bytes unpacked" in refused(tmp_path, file)


def test_archive_file_of_wrong_size_is_refused(honest: Path, tmp_path: Path) -> None:
    """The import refuses a file whose size differs from the size in the manifest."""
    file = tmp_path / "other.zip"
    with ZipFile(honest) as source, ZipFile(file, "w") as archive:
        manifest = json.loads(source.read("manifest.json"))
        manifest["files"]["progress.log"]["bytes"] += 1
        for name in source.namelist():
            changed = json.dumps(manifest).encode() if name == "manifest.json" else None
            archive.writestr(name, changed or source.read(name))
    assert "the manifest records" in refused(tmp_path, file)


def test_archive_with_deeply_nested_event_is_refused(honest: Path, tmp_path: Path) -> None:
    """An event with 800 nested lists is refused, because it would exceed the recursion limit."""
    deep: object = []
    for _ in range(800):
        deep = [deep]
    more = added("checkpoint.recorded", {"stage": "stage-1", "checkpoint": deep})
    refused(tmp_path, forged(honest, tmp_path / "deep.zip", more))


def test_archive_with_very_long_line_is_refused(honest: Path, tmp_path: Path) -> None:
    """The import refuses a line above the maximum length before reading all of it."""
    more = added("note.logged", {"text": "x" * (40 << 20)})
    refused(tmp_path, forged(honest, tmp_path / "long.zip", more))
