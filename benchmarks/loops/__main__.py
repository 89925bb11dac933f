"""Kill the loop of each contender several times, and count lost and repeated work.

`python -m benchmarks.loops [--python PATH] [--blow all|driver] [--kills N] [NAME …]`; PATH is the
Python of an environment with Optuna and Snakemake. A kill follows the start of a point after a
random time.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.loops.contenders import Checkpoints, Contender, Records, Study
from benchmarks.loops.ours import Ours
from benchmarks.loops.traces import counted, placed, working
from tests.crash.support import Workflow
from tests.crash.victims import Victim, processes, strike

#: Maximum number of kills in one run of a loop, and the longest delay of a kill after the start of
#: a point, as a share of the duration without kills.
KILLS, WITHIN = 5, 0.15
CONTENDERS: dict[str, type[Contender]] = {
    "wfctl": Ours,
    "optuna": Study,
    "records": Records,
    "snakemake": Checkpoints,
}


def looped(kind: Contender, blow: str, choose: random.Random, within: float) -> Counter[str]:
    """Run a loop to its end with several kills, and count lost and repeated work.

    ``blow`` is `all` to kill every process, or `driver` to kill only the main process. Without
    ``within``, the longest delay of a kill in seconds, no process is killed.
    """
    counts: Counter[str] = Counter()
    with placed() as workflow:
        kind.prepare(workflow)
        while not kind.is_done(workflow):
            counts["starts"] += 1
            assert counts["starts"] < 25, (counts, workflow.said()[-2000:])
            process = kind.start(workflow)
            is_struck = (
                bool(within)
                and counts["kills"] < KILLS
                and working(workflow, process, choose, within)
            )
            if is_struck:
                counts["kills"] += 1
                _strike(workflow, process, blow)
            process.communicate()
            helped = kind.help(workflow)
            counts["by a person"] += helped
            if not is_struck and not helped and process.returncode:
                counts["failed by itself"] += 1
                print(kind.name, _last(workflow.root / "said"), file=sys.stderr, flush=True)
        time.sleep(2)  # what goes on beside may still end
        counts["left"] = len(processes(workflow))
        counts.update(counted(workflow.root))
        print(kind.name, dict(counts), kind.told(workflow), file=sys.stderr, flush=True)
    return counts


def _strike(workflow: Workflow, process: subprocess.Popen[str], blow: str) -> None:
    if blow == "all":
        strike(workflow, Victim.EVERYTHING)
    else:
        process.kill()


def _last(said: Path) -> str:
    return said.read_text()[-2000:] if said.exists() else ""


def main() -> None:
    """Measure each contender with repeated runs, and print one line of totals for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loops")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--blow", choices=("all", "driver"), default="all")
    parser.add_argument("--kills", type=int, default=20, help="in all, at least")
    parser.add_argument("names", nargs="*", default=list(CONTENDERS))
    options = parser.parse_args()
    for name in options.names:
        kind = CONTENDERS[name](name, options.python)
        began = time.monotonic()
        looped(kind, options.blow, random.Random(0), 0)
        seconds = time.monotonic() - began - 2
        total: Counter[str] = Counter()
        while total["kills"] < options.kills:
            choose = random.Random(total["runs"])
            total.update(looped(kind, options.blow, choose, seconds * WITHIN), runs=1)
        print(f"{name} ({seconds:.0f} s undisturbed, {options.blow}):", dict(total), flush=True)


if __name__ == "__main__":
    main()
