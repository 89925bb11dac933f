"""Measure whole wfctl commands in new processes, as a user or agent calls them."""

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.measurement import in_fresh_folder

PLAN = """\
workflow_id = "bench"
experiment_design = "bench"
[[stages]]
id = "stage-1"
name = "one"
outputs = ["stage-1/out"]
[[stages]]
id = "stage-2"
name = "two"
depends_on = ["stage-1"]
"""
#: The program that each command is compared with. No command line made with typer can be faster.
BASE = "import typer"
#: Number of times that each command runs in a round, so that five rounds give medians of twenty
#: processes.
RUNS_A_ROUND = 4
ROOT = Path(__file__).parents[1]


def report(rounds: int, disk: Path) -> str:
    """Return a table of the processor time of each command and of importing typer.

    The commands run in turn, and their order rotates from round to round. All figures are medians.
    """
    seconds: dict[str, list[float]] = {}
    opened: dict[str, int | None] = {}
    in_fresh_folder(partial(_runs, rounds * RUNS_A_ROUND, seconds, opened), disk)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    head = [
        f"### Whole processes, medians of {rounds * RUNS_A_ROUND}",
        "",
        "| command | processor time, ms | of `import typer` | files opened |",
        "|---|---:|---:|---:|",
    ]
    rows = [
        f"| `{name}` | {took * 1000:.0f} | {took / medians[BASE]:.2f} x | {opened[name] or ''} |"
        for name, took in medians.items()
    ]
    return "\n".join([*head, *rows, ""])


def _runs(
    number: int, seconds: dict[str, list[float]], opened: dict[str, int | None], folder: Path
) -> None:
    (folder / "plan.toml").write_text(PLAN)
    _spent([*_wfctl(), "init", "plan.toml", "--consent", "trust"], folder)
    commands = list(_commands().items())
    for name, command in commands:
        opened[name] = _opened(command, folder)
        seconds[name] = []
    for turn in range(number):
        begin = turn % len(commands)
        for name, command in (*commands[begin:], *commands[:begin]):
            seconds[name].append(_spent(command, folder))


def _wfctl() -> list[str]:
    return [sys.executable, "-m", "cli.main"]


def _commands() -> dict[str, list[str]]:
    lines = [
        ["--version"],
        ["note", "--help"],
        ["status"],
        ["show", "stage-1"],
        ["log"],
        ["events"],
        ["why", "stage-2"],
        ["rehydrate"],
        ["note", "hi"],
        ["append", "note.logged", "--data", '{"text": "hi"}'],
        ["stage", "outputs", "stage-1", "stage-1/out"],
        ["blame", "stage-1"],
        ["session", "show"],
        ["dispatch", "stage-1", "--dry-run"],
        ["reconcile"],
        ["machine", "list"],
        ["audit", "times"],
        ["fsck"],
        ["--help"],
    ]
    python = {"pass": [sys.executable, "-I", "-S", "-c", "pass"]}
    python[BASE] = [sys.executable, "-c", BASE]
    return python | {f"wfctl {' '.join(line)}": [*_wfctl(), *line] for line in lines}


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "WFCTL_ACTOR": "agent:bench"}


def _spent(command: Sequence[str], folder: Path) -> float:
    """Run a command, and return the processor seconds of its process and awaited children."""
    started = subprocess.Popen(
        command,
        cwd=folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def _opened(command: Sequence[str], folder: Path) -> int | None:
    """Return the number of files that a command opens, or None if strace is not installed."""
    if shutil.which("strace") is None:
        return None
    found = folder / "opened"
    traced = ["strace", "-f", "-e", "trace=open,openat", "-o", str(found), *command]
    subprocess.run(traced, cwd=folder, env=_environment(), capture_output=True, check=False)
    return sum(1 for _ in _successes(found.read_text("utf-8", "replace")))


def _successes(trace: str) -> Iterator[str]:
    return (line for line in trace.splitlines() if "open" in line and " = -1 " not in line)
