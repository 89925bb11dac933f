"""Measure the overhead of wfctl per stage: ``python -m benchmarks.chain [STAGES …]``.

Runs a chain of stages that only echo a word, with the real program in a process of its own. Prints
the elapsed time per stage, and the number and size of the files that wfctl adds to the results. If
Snakemake is installed, it runs the same chain afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from subprocess import DEVNULL

#: Names of the result files of a stage. All other files in its folder count as overhead of wfctl.
RESULTS = ("out.txt", "log", "err")
_HERE = Path(__file__).resolve().parents[1]


def plan(stages: int) -> dict[str, object]:
    """Return a plan for a chain of stages, each of which depends on the previous stage."""
    ids = [f"stage-{number}" for number in range(1, stages + 1)]
    before: list[list[str]] = [[], *([id_] for id_ in ids)]
    chain = [
        {
            "id": id_,
            "name": "Echo",
            "depends_on": after,
            "outputs": [f"{id_}/out.txt"],
            "parameters": {"command": "echo hi > out.txt"},
        }
        for id_, after in zip(ids, before, strict=False)
    ]
    return {"workflow_id": "chain", "purpose": "See what a stage costs.", "stages": chain}


def wfctl(folder: Path, stages: int) -> float:
    """Run the chain to its end with `wfctl run`, and return the elapsed seconds.

    One call ends when the budget of its session is used up, so the command is called until the last
    stage has its output.
    """
    (folder / "plan.json").write_text(json.dumps(plan(stages)))
    environ = {**os.environ, "PYTHONPATH": str(_HERE), "TMUX_TMPDIR": str(folder)}
    line = [sys.executable, "-m", "cli.main"]
    subprocess.run(
        [*line, "init", "plan.json", "--consent", "trust"],
        cwd=folder,
        env=environ,
        check=True,
        stdout=DEVNULL,
    )
    began = time.perf_counter()
    # One call of `wfctl run` ends when the budget of its session is used up. The next call
    # continues with the remaining stages.
    while not (folder / f"stage-{stages}" / "out.txt").exists():
        _silently([*line, "run"], folder, environ)
    return time.perf_counter() - began


def _silently(line: list[str], folder: Path, environ: Mapping[str, str]) -> None:
    subprocess.run(line, cwd=folder, env=environ, check=True, stdout=DEVNULL, stderr=DEVNULL)


def left(folder: Path, stages: int) -> tuple[float, float]:
    """Return the number and size in bytes of the files per stage, without its results."""
    paths = [path for path in folder.glob("stage-*/**/*") if path.is_file()]
    own = [path for path in paths if not (path.name in RESULTS and ".attempts" not in path.parts)]
    return len(own) / stages, sum(path.stat().st_size for path in own) / stages


def snakemake(folder: Path, stages: int) -> float | None:
    """Run the same chain with Snakemake, and return the elapsed seconds.

    Returns None if Snakemake is not installed.
    """
    if shutil.which("snakemake") is None:
        return None
    first = 'rule s1:\n    output: "out-1"\n    shell: "echo hi > {output}"\n'
    later = 'rule s{0}:\n    input: "out-{1}"\n    output: "out-{0}"\n'
    shell = '    shell: "echo hi > {output}"\n'
    rules = [later.format(number, number - 1) + shell for number in range(2, stages + 1)]
    (folder / "Snakefile").write_text("".join([first, *rules]))
    began = time.perf_counter()
    line = ["snakemake", "--cores", "1", f"out-{stages}"]
    _silently(line, folder, os.environ)
    return time.perf_counter() - began


def main(arguments: list[str]) -> None:
    """Measure a chain of each given length, and print a line for it."""
    for stages in map(int, arguments or ["8"]):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            taken = wfctl(folder, stages)
            files, size = left(folder, stages)
            others = snakemake(folder, stages)
        beside = "" if others is None else f", Snakemake {others:.1f} s"
        each = f"{taken / stages:.2f} s, {files:.0f} files and {size / 1000:.1f} kB each"
        print(f"{stages:4} stages  {taken:6.1f} s{beside}; {each}")


if __name__ == "__main__":
    main(sys.argv[1:])
