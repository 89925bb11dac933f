"""Parsl with Slurm: the program of parsl.py, whose steps run in a block of SlurmProvider."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.contenders import parsl
from benchmarks.faults.work import JOBS_AT_ONCE, Step

NAME, PACKAGES, STATE = parsl.NAME, parsl.PACKAGES, parsl.STATE
DOCUMENTATION = (
    *parsl.DOCUMENTATION,
    "https://parsl.readthedocs.io/en/stable/userguide/configuration/execution.html",
    "https://parsl.readthedocs.io/en/stable/stubs/parsl.providers.SlurmProvider.html",
)
SCHEDULER = "slurm"

command, recover = parsl.command, parsl.recover

_IMPORTS = """\
from parsl.executors import HighThroughputExecutor
from parsl.providers import SlurmProvider
"""
_EXECUTOR = f"HighThroughputExecutor(max_workers_per_node={JOBS_AT_ONCE}, provider=SlurmProvider())"

#: Parts of the program of parsl.py, and their replacements.
_CHANGES = {
    "from parsl.executors import ThreadPoolExecutor\n": _IMPORTS,
    "ThreadPoolExecutor(max_threads=4)": _EXECUTOR,
}


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the program of parsl.py with another executor."""
    parsl.write(steps, folder, python)
    program = folder / "workflow.py"
    text = program.read_text()
    for old, new in _CHANGES.items():
        text = text.replace(old, new)
    program.write_text(text)
