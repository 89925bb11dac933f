"""Measure updates of a machine in logs of growing length.

Usage: ``python -m benchmarks.machines [EVENTS …]``.

A machine records the phases of an agent protocol. Each figure belongs to one `wfctl machine update`
in a new process: the number of Python function calls and the elapsed seconds. All earlier events of
the log update one field.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from cli.frame.workspace import open_root_log
from eventstore.event import Actor
from extensions.machines.rules import payload as p
from extensions.machines.service.log import MachineLog
from extensions.machines.service.service import MachineService
from lifecycle.words.document import record_key_order
from service.root.root import open_root

_HERE = Path(__file__).parents[1]
_EVENTS = (10, 1_000, 10_000)
_PROFILED = """
import cProfile, pstats, sys
from cli.main import run
profile = cProfile.Profile()
code = profile.runcall(run, sys.argv[1:])
print(pstats.Stats(profile).total_calls, file=sys.stderr)
sys.exit(code)
"""


def grow(root: Path, events: int) -> None:
    """Append updates to the machine ``m-1`` until its log has the given number of events."""
    found, _ = open_root(root, None)
    with closing(open_root_log(found, read_only=False)) as store:
        log = MachineLog(store, "m-1", root)
        service = MachineService(found, log, Actor("user", "ada"))
        for number in range(log.current().head, events):
            change = p.Change(path="notes", value=number)
            layout = record_key_order([change.model_dump(mode="json")])
            service.handle(p.MachineUpdated(changes=[change], layout=layout))


def _call(root: Path, program: list[str], *words: str) -> tuple[float, str]:
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *program, "--root", str(root), "machine", *words],
        cwd=_HERE,
        capture_output=True,
        text=True,
        check=True,
    )
    return time.perf_counter() - begun, done.stderr


def main(arguments: list[str]) -> None:
    """Measure one update at each log length, and print a line for it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = str(Path(folder) / "login")
        root = Path(folder) / "root"
        root.mkdir()
        _call(root, ["-m", "cli.main"], "init", "m-1", "--type", "feature", "--consent", "trust")
        for events in map(int, arguments or map(str, _EVENTS)):
            grow(root, events)
            _, told = _call(root, ["-c", _PROFILED], "update", "m-1", "notes=1")
            seconds = min(
                _call(root, ["-m", "cli.main"], "update", "m-1", f"notes={n}")[0] for n in range(5)
            )
            print(f"{events:6} events  {int(told.split()[-1]):9,} calls  {seconds:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
