"""Damage to the files of an attempt, as a disk, an editor or a clean-up script may cause."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

#: Files of an attempt with an uncollected result, as patterns below the stage folder.
FILES = (
    ".attempts/*/submission.json",
    ".attempts/*/machine.json",
    ".attempts/*/launch.json",
    ".attempts/*/monitor.json",
    ".attempts/*/dpdisp.log",
    ".attempts/*/monitor.log",
    ".attempts/*/job-*.exit",
    ".attempts/*/job-*.lock",
    ".attempts/*/job-*.started/record",
    ".attempts/*/work/*/*_job_id",
    ".attempts/*/work/*/????????????????????????????????????????.json",
    ".monitor.lock",
    "dpdisp-run.sh",
    ".attempts/*/exit-code",
    "DPDISP_EXIT_CODE",
    "DPDISP_DONE",
)


def _half(path: Path) -> None:
    content = path.read_bytes() if path.is_file() else b"0\nw"
    path.write_bytes(content[: len(content) // 2])


def _folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(missing_ok=True),
    "empty": lambda path: path.write_bytes(b""),
    "half": _half,
    "list": lambda path: path.write_text("[]\n"),
    "object": lambda path: path.write_text("{}\n"),
    "digits": lambda path: path.write_text("1" * 5000 + "\n"),
    "bytes": lambda path: path.write_bytes(bytes(range(256))),
    "folder": _folder,
    "pipe": _pipe,
}


def _could_lie(stage: Path, pattern: str) -> Iterator[Path]:
    """Yield the possible paths of a file in the stage folder or in each attempt folder."""
    folder, _, name = pattern.rpartition("/")
    if "*" not in name and "?" not in name:
        places = stage.glob(folder) if folder else [stage]
        yield from (one / name for one in places if one.is_dir())


def strike(stage: Path, pattern: str, damage: str) -> None:
    """Damage each file of the stage that matches the pattern.

    If no file matches, create a damaged file at each possible path.
    """
    found = list(stage.glob(pattern)) or list(_could_lie(stage, pattern))
    assert found, f"no {pattern} in {stage}"
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        DAMAGES[damage](path)
