"""The programs that run the same loop, with the commands to start and continue them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, STDOUT

from benchmarks.loops.point import EACH
from tests.crash.support import Workflow

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Contender:
    """A program that is started again after each kill until it writes the file `done`."""

    name: str
    python: str
    module = ""

    def prepare(self, workflow: Workflow) -> None:
        """Put the files that the program needs into the folder of the loop."""

    def line(self) -> list[str]:
        """Return the command line that starts the loop, or continues it after a kill."""
        return [self.python, "-m", self.module]

    def start(self, workflow: Workflow) -> subprocess.Popen[str]:
        """Start the program in the folder of the loop, or start it again after a kill."""
        with (workflow.root / "said").open("w") as said:
            return subprocess.Popen(
                self.line(),
                cwd=workflow.root,
                env=workflow.environ,
                stdin=DEVNULL,
                stdout=said,
                stderr=STDOUT,
                text=True,
            )

    def help(self, _: Workflow) -> int:
        """Do a person's work before a restart; return the number of steps, 0 by default."""
        return 0

    def is_done(self, workflow: Workflow) -> bool:
        """Return whether the loop has ended."""
        return (workflow.root / "done").exists()

    def told(self, workflow: Workflow) -> str:
        """Return the summary that the program wrote when its loop ended."""
        return (workflow.root / "done").read_text()


class Study(Contender):
    """Run the loop as an Optuna study."""

    module = "benchmarks.loops.study"


class Records(Contender):
    """Run the loop with a script that records its finished steps in a file."""

    module = "benchmarks.loops.records"


class Checkpoints(Contender):
    """Run the loop with Snakemake, without the sources of wfctl on PYTHONPATH."""

    def prepare(self, workflow: Workflow) -> None:
        """Copy the Snakefile and the program that computes a point."""
        del workflow.environ["PYTHONPATH"]
        for name in ("Snakefile", "point.py"):
            shutil.copy(_HERE / name, workflow.root)

    def line(self) -> list[str]:
        """Return the Snakemake command, which also repeats incomplete jobs."""
        return [self.python, "-m", "snakemake", "--cores", str(EACH), "--rerun-incomplete"]

    def help(self, workflow: Workflow) -> int:
        """Unlock the folder if Snakemake reported a lock; return 1 if it did, else 0."""
        if "LockException" not in (workflow.root / "said").read_text():
            return 0
        line = [self.python, "-m", "snakemake", "--unlock"]
        subprocess.run(
            line, cwd=workflow.root, env=workflow.environ, check=True, capture_output=True
        )
        return 1

    def is_done(self, workflow: Workflow) -> bool:
        """Return whether the last Snakemake run completed all jobs or found none to run."""
        path = workflow.root / "said"
        said = path.read_text() if path.exists() else ""
        return "(100%) done" in said or "Nothing to be done" in said

    def told(self, _: Workflow) -> str:
        """Return an empty string, because Snakemake writes no summary file."""
        return ""
