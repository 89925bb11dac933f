"""Measure how many faults `make quick` misses, by inserting faults into recently changed code.

`python -m tests.quick.trial [COMMITS] [SEED]` inserts one fault for each of the last commits (by
default 50) that changed a program, each in a copy of this checkout. It prints a line for each
fault, then the number of detected faults and a list of the missed ones. A fault may have no visible
effect, so check each missed fault by hand.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.quick.__main__ import HERE
from tests.quick.faults import planted
from tests.quick.reach import PACKAGES

_ROOMS = tuple(f"{package}/" for package in PACKAGES if package != "tests")
_NOTHING_FAILED, _NO_TESTS = 0, 5


class Fault(NamedTuple):
    """A fault: the commit that changed its file, its place, and the changed text of the file."""

    commit: str
    path: str
    line: int
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.commit} {self.path}:{self.line}  {' '.join(self.what.split())}"


def faults(number: int, dice: random.Random) -> Iterator[Fault]:
    """Yield a fault for each of the newest commits that changed an existing program."""
    for commit in _git("log", "--format=%h", "--no-merges").split():
        files = _git("diff-tree", "--no-commit-id", "--name-only", "-r", commit).splitlines()
        programs = [f for f in files if f.startswith(_ROOMS) and f.endswith(".py")]
        there = [path for path in programs if (HERE / path).is_file()]
        if not there or number <= 0:
            continue
        path = dice.choice(there)
        found = planted((HERE / path).read_text(), dice)
        if found is not None:
            text, line, what = found
            number -= 1
            yield Fault(commit, path, line, what, text)


def is_found(fault: Fault) -> bool:
    """Plant a fault in a copy of the checkout, and return whether `make quick` fails there."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "copy"
        ignored = shutil.ignore_patterns(".venv", ".git", "__pycache__", "build", ".*_cache")
        shutil.copytree(HERE, copy, symlinks=True, ignore=ignored)
        (copy / fault.path).write_text(fault.text)
        line = [sys.executable, "-m", "tests.quick", fault.path]
        done = subprocess.run(line, cwd=copy, stdout=subprocess.DEVNULL, check=False)
    return done.returncode not in (_NOTHING_FAILED, _NO_TESTS)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=True)
    return done.stdout


def main(number: int = 50, seed: int = 0) -> None:
    """Try the given number of faults, and print which of them `make quick` detected."""
    missed, tried = [], 0
    for fault in faults(number, random.Random(seed)):
        tried += 1
        found = is_found(fault)
        print("found " if found else "missed", fault, flush=True)
        missed += [] if found else [fault]
    print(f"\n{tried - len(missed)} of {tried} faults were found; missed:", *missed, sep="\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
