"""Create the folder of a loop, wait for the time of a kill, and count trace lines."""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.crash.support import Workflow, environment, until
from tests.crash.victims import Victim, find, kill, processes

_TRACES = ("began", "computed", "chosen", "asked", "failed-alive")


@contextmanager
def placed() -> Iterator[Workflow]:
    """Yield a workflow folder with an environment that identifies its processes.

    Kills all processes of the workflow at the end.
    """
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="loop-") as folder:
        root, home = Path(folder) / "root", Path(folder) / "home"
        root.mkdir()
        home.mkdir()
        made = Workflow(root, {**environment(home, folder), "LOOP_ROOT": str(root)})
        try:
            yield made
        finally:
            kill(find(made, Victim.EVERYTHING))
            until(lambda: not processes(made))


def working(
    workflow: Workflow, process: subprocess.Popen[str], choose: random.Random, within: float
) -> bool:
    """Wait until the next point starts, and for a random time after that.

    Returns whether the program still runs. ``within`` is the maximum of the random time in seconds.
    """
    before = len(_lines(workflow.root / "began"))
    while process.poll() is None and len(_lines(workflow.root / "began")) == before:
        time.sleep(0.01)
    over = time.monotonic() + choose.uniform(0, within)
    while process.poll() is None and time.monotonic() < over:
        time.sleep(0.01)
    return process.poll() is None


def counted(root: Path) -> Counter[str]:
    """Return the counts of finished, repeated and lost points, read from the trace files."""
    seen = {name: Counter(_lines(root / name)) for name in _TRACES}
    ended = seen["computed"]
    names = set(seen["began"]) | set(ended)
    return Counter(
        {
            "points": len(ended),
            "twice": sum(count > 1 for count in ended.values()),
            "begun again": sum(seen["began"].values()) - len(names),
            "lost": len((set(seen["began"]) | set(seen["asked"])) - set(ended)),
            "chosen twice": sum(count - 1 for count in seen["chosen"].values()),
            "failed alive": sum(seen["failed-alive"].values()),
        }
    )


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
