"""Run the tests that a change can affect, most closely related tests first, for 30 seconds.

`python -m tests.quick [FILE…]` uses the given files. Without files, it uses all files that differ
from main or are not committed. WFCTL_QUICK sets another number of seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.quick.reach import PACKAGES, modules_of, nearest, shared_names, steps_from

HERE = Path(__file__).resolve().parents[2]
SECONDS = float(os.environ.get("WFCTL_QUICK", "30"))
#: Seconds reserved for the test workers to end after their last test.
_END = 3.0
#: Maximum number of test files, because loading more files would take the time for tests.
_MOST = 60
#: Folders whose tests use no process and no disk.
PURE = ("tests/lifecycle", "tests/projections")


def changed() -> list[str]:
    """Return the files that differ from main or are new, or else those of the last commit."""
    base = _git("merge-base", "HEAD", "main") or _git("merge-base", "HEAD", "origin/main")
    found = {*_git("diff", "--name-only", *base), *_git("ls-files", "-o", "--exclude-standard")}
    return sorted(found or _git("diff", "--name-only", "HEAD~1"))


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=HERE, capture_output=True, text=True, check=False
    )
    return done.stdout.split() if done.returncode == 0 else []


def reached(files: list[str]) -> list[str]:
    """Return the test files that a change of the files can affect, nearest first."""
    import grimp

    graph = grimp.build_graph(*PACKAGES, cache_dir=str(HERE / ".import_linter_cache"))
    own = modules_of(files, graph.modules)
    return nearest(steps_from(own, graph), shared_names(own, graph.modules))[:_MOST]


def main(files: list[str]) -> int:
    """Run the tests that the given files can affect, and return pytest's exit code."""
    until = time.time() + SECONDS - _END
    files = files or changed()
    near = reached(files)
    print(f"{len(files)} changed files reach {len(near)} files of tests", flush=True)
    chosen = [*near, *(folder for folder in PURE if (HERE / folder).is_dir())]
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", str(os.cpu_count() or 1)),
            *("-m", "not slow and not long and not soak", "--until", str(until), *chosen),
        ],
        cwd=HERE,
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
