"""Tasks whose commands computed on after all of their shells were killed.

As with a stage of one command, what each was to leave tells whether it is through: every file of
`task_outputs`, written since its start. `task_verify`, or a person, says whether it ended well.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from lifecycle.sweeps.definition import DONE, Sweep
from reconciler.attempt import recorded as genuine
from reconciler.attempt.contract import UNTOLD
from reconciler.attempt.paths import AttemptPaths
from reconciler.host import small_files as plain
from reconciler.records import traces
from reconciler.sweep import journal
from reconciler.sweep.place import place_of

_SUM = re.compile(r"\b([0-9a-f]{64})  ([\w.]+)")


@dataclass(frozen=True, slots=True)
class Alone:
    """A task that is through: as its attempt lists it, and where it ran."""

    number: str
    folder: str
    assignments: str
    place: Path


def through(attempt: AttemptPaths, what: Sweep) -> list[Alone]:
    """Return the tasks of an attempt that is over which ran on alone and left all they were to."""
    silent = {job.name for job in traces.jobs(attempt) if job.exit_code in UNTOLD}
    jobs = silent.intersection(traces.alone(attempt))
    return list(_through(attempt, what, jobs)) if jobs else []


def _through(attempt: AttemptPaths, what: Sweep, jobs: set[str]) -> Iterator[Alone]:
    runs = journal.of(attempt)
    copies = traces.scratch_copies(attempt)
    for number, folder, assignments in journal.listed(attempt):
        ran = runs.get(int(number))
        if ran is None or ran.state != "running" or ran.job not in jobs:
            continue
        for place in (copy / attempt.stage / DONE / folder for copy in copies):
            if place.is_dir() and all(
                _is_since(place / path, ran.started) for path in what.outputs
            ):
                yield Alone(number, folder, assignments, place)


def _is_since(path: Path, micros: int) -> bool:
    return path.exists() and path.stat().st_mtime_ns >= micros * 1000


def settle(attempt: AttemptPaths, what: Sweep) -> None:
    """End these tasks as their worker would have: verified, put in place and written down."""
    found = through(attempt, what)
    own = genuine.submission_of(attempt) or {}
    tasks = place_of(attempt).folder
    if not found or not _is_vouched(tasks, json.dumps(own)):
        return
    environ = {**os.environ, **own["resources"]["envs"]}
    for one in found:
        words = ["alone", "", one.number, one.folder, one.assignments]
        subprocess.run(
            ["bash", str(tasks / "worker.sh"), *words],
            cwd=one.place.parents[1],
            env={name: str(value) for name, value in environ.items()},
            stdin=subprocess.DEVNULL,
            check=False,
        )


def _is_vouched(tasks: Path, submission: str) -> bool:
    """Whether what a worker reads is as the submission, whose digest the log has, names it."""
    sums = dict.fromkeys(_SUM.findall(submission))
    files = ((digest, plain.content(tasks / name)) for digest, name in sums)
    return bool(sums) and all(sha256(text or b"").hexdigest() == digest for digest, text in files)
