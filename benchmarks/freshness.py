"""Measure the cost of comparing files: ``python -m benchmarks.freshness [COUNT]``.

The workflow has COUNT completed stages with ten unchanged outputs each. The commands ``status`` and
``run`` are started as separate processes, in turn with the comparison and without it.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

from benchmarks.running_stages import jobs_of, make_root, record
from lifecycle.payload import models as p
from lifecycle.plan.document import build_creation_payload as command_of
from service.root.atomic_files import system_clock, utc_text
from service.root.root import read_identity

_OUTPUTS, _ROUNDS = 10, 5
_CONTENT = b"42\n"
_MODULE = "reconciler.files.freshness"


def make(path: Path, count: int) -> None:
    """Create a workflow of ``count`` completed stages, whose files are not new."""
    stages = [
        {"id": f"stage-{n}", "name": f"sample {n}", "outputs": _paths(n)}
        for n in range(1, count + 1)
    ]
    path.mkdir(parents=True)
    for number in range(1, count + 1):
        (path / f"stage-{number}").mkdir()
        for name in _paths(number):
            (path / name).write_bytes(_CONTENT)
    now = system_clock() + timedelta(seconds=2)
    plan = {"workflow_id": "many-stages", "stages": stages}
    make_root(
        path, command_of(plan, created=utc_text(now), root=read_identity(path), consent="trust")
    )
    with jobs_of(path) as jobs:
        done = [_completed(number) for number in range(1, count + 1)]
        record(jobs.service, tuple((event, utc_text(now)) for event in done))


def _paths(number: int) -> list[str]:
    return [f"stage-{number}/out-{n}.txt" for n in range(_OUTPUTS)]


def _completed(number: int) -> p.StageCompleted:
    digest = sha256(_CONTENT).hexdigest()
    outputs = [
        p.FileDigest(path=path, size=len(_CONTENT), sha256=digest) for path in _paths(number)
    ]
    return p.StageCompleted(stage=f"stage-{number}", evidence="seen", outputs=outputs)


def seconds(root: Path, command: str, *, compares: bool) -> float:
    """Run a wfctl command in a new process, and return its processor time in seconds.

    With ``compares``, the command compares the files of completed stages with their record. Raises
    CalledProcessError if the command fails.
    """
    skip = f"import {_MODULE} as f; f.find_deviations = lambda *_, **__: []; "
    code = f"{'' if compares else skip}from cli.main import main; main()"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-c", code, "--root", str(root), "-o", "json", command]
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: list[str]) -> None:
    """Print the median times with and without the comparison of files, and the difference."""
    count = int(arguments[0]) if arguments else 1_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        make(root, count)
        for name in ("status", "run"):
            pairs = [
                (seconds(root, name, compares=False), seconds(root, name, compares=True))
                for _ in range(_ROUNDS)
            ]
            without, whole = (statistics.median(column) for column in zip(*pairs, strict=True))
            print(f"{name:<8} {without:6.3f} s, {whole:6.3f} s: {whole / without - 1:+6.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
