"""What a stage costs that computes nothing: ``python -m benchmarks.chain [STAGES …]``.

Runs a chain of stages that echo a word, through the real program in a process of its own, and says
what each took by the clock, and what it left beside its results in files and bytes. Where Snakemake
is installed, it runs the same chain right after.
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

#: What a stage is there for; the rest was made to get it.
RESULTS = ("out.txt", "log", "err")
_HERE = Path(__file__).resolve().parents[1]


def plan(stages: int) -> dict[str, object]:
    """Return a chain of stages, each of which depends on the one before it."""
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
    """Run the chain to its end; return the seconds of `wfctl run`, however often it is called."""
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
    # A run ends with the budget of its session, and the next one goes on from there.
    while not (folder / f"stage-{stages}" / "out.txt").exists():
        _silently([*line, "run"], folder, environ)
    return time.perf_counter() - began


def _silently(line: list[str], folder: Path, environ: Mapping[str, str]) -> None:
    subprocess.run(line, cwd=folder, env=environ, check=True, stdout=DEVNULL, stderr=DEVNULL)


def left(folder: Path, stages: int) -> tuple[float, float]:
    """Return the files and the bytes of a stage beside its results."""
    paths = [path for path in folder.glob("stage-*/**/*") if path.is_file()]
    own = [path for path in paths if not (path.name in RESULTS and ".attempts" not in path.parts)]
    return len(own) / stages, sum(path.stat().st_size for path in own) / stages


def snakemake(folder: Path, stages: int) -> float | None:
    """Run the same chain with Snakemake; None if it is not installed."""
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
    """Measure for each number of stages."""
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
