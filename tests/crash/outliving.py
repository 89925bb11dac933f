"""Solvers whose only parents are shells, and functions that kill these shells."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from reconciler.host.processes import start_ticks
from tests.crash.support import Workflow, until
from tests.crash.victims import kill

SOLVER = """
import os, sys, time
from pathlib import Path
outside = Path(sys.argv[1])
(outside / f"solver-{os.getpid()}").touch()
while not (outside / "go").exists():
    time.sleep(0.02)
if not (outside / "broken").exists():
    Path("out.txt").write_text("1\\n")
if (outside / "old").exists():
    os.utime("out.txt", (1e9, 1e9))
"""


def solving(workflow: Workflow, **parameters: Any) -> dict[str, Any]:
    """Return a stage whose solver has only shells as parents.

    The solver writes its process id to a file outside the root.
    """
    outside = workflow.root.parent
    (outside / "solver.py").write_text(SOLVER)
    command = f'"{sys.executable}" "{outside}/solver.py" "{outside}"'
    return {
        "id": "stage-1",
        "name": "one",
        "outputs": ["stage-1/out.txt"],
        "parameters": {"command": command, **parameters},
    }


def solvers(workflow: Workflow) -> list[int]:
    """Return the process ids of all solvers that ever started, in no order."""
    found = workflow.root.parent.glob("solver-*")
    return [int(one.name.partition("-")[2]) for one in found]


def outlive(workflow: Workflow, last: int = 0) -> int:
    """Kill the shells above the solver, and return the process id of the solver.

    With ``last``, kill only the given number of innermost shells. The outermost shell is killed
    first.
    """
    until(lambda: solvers(workflow))
    [solver] = solvers(workflow)
    # After the kill, the parent of the solver is the process that adopts orphans.
    shells = shells_above(solver)[-last:]
    assert shells
    kill(shells)
    until(lambda: not any(start_ticks(shell) for shell in shells))
    return solver


def shells_above(pid: int) -> list[int]:
    """Return the shells of the job above a process, the outermost first."""
    found: list[int] = []
    while is_shell(parent := parent_process_id(pid)):
        found.insert(0, parent)
        pid = parent
    return found


def parent_process_id(pid: int) -> int:
    """Return the process id of the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def is_shell(pid: int) -> bool:
    """Return whether a process is a shell of a job."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        line = Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return name in ("bash", "slurm_script") and "dpdisp-run.sh" not in line


def noted(workflow: Workflow) -> bool:
    """Return whether the monitor has recorded that the command outlived its shells."""
    return any(workflow.attempts("stage-1")[0].glob("job-*.alone"))


def through(workflow: Workflow, solver: int) -> None:
    """Let the solver end."""
    until(lambda: noted(workflow))
    (workflow.root.parent / "go").touch()
    until(lambda: start_ticks(solver) is None)
