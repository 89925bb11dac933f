"""How each loop is begun, gone on with, and asked whether it is done."""

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
    """A program that is started again and again until it leaves a file `done`."""

    name: str
    python: str
    module = ""

    def prepare(self, workflow: Workflow) -> None:
        """Place what the loop needs."""

    def line(self) -> list[str]:
        """Return the command line that begins the loop and goes on with it."""
        return [self.python, "-m", self.module]

    def start(self, workflow: Workflow) -> subprocess.Popen[str]:
        """Start or go on."""
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
        """Do what a person must do before it goes on; return how often."""
        return 0

    def is_done(self, workflow: Workflow) -> bool:
        """Whether the loop is through."""
        return (workflow.root / "done").exists()

    def told(self, workflow: Workflow) -> str:
        """Return what the program itself says about its end."""
        return (workflow.root / "done").read_text()


class Study(Contender):
    """Optuna."""

    module = "benchmarks.loops.study"


class Records(Contender):
    """A record of steps."""

    module = "benchmarks.loops.records"


class Checkpoints(Contender):
    """Snakemake; without the sources on its path."""

    def prepare(self, workflow: Workflow) -> None:
        """Place the rules and the program of a point."""
        del workflow.environ["PYTHONPATH"]
        for name in ("Snakefile", "point.py"):
            shutil.copy(_HERE / name, workflow.root)

    def line(self) -> list[str]:
        """Return its command."""
        return [self.python, "-m", "snakemake", "--cores", str(EACH), "--rerun-incomplete"]

    def help(self, workflow: Workflow) -> int:
        """Unlock the folder if it says so."""
        if "LockException" not in (workflow.root / "said").read_text():
            return 0
        line = [self.python, "-m", "snakemake", "--unlock"]
        subprocess.run(
            line, cwd=workflow.root, env=workflow.environ, check=True, capture_output=True
        )
        return 1

    def is_done(self, workflow: Workflow) -> bool:
        """Whether its last run came to the end, or found nothing to do."""
        path = workflow.root / "said"
        said = path.read_text() if path.exists() else ""
        return "(100%) done" in said or "Nothing to be done" in said

    def told(self, _: Workflow) -> str:
        """Return nothing: its end is that of its log."""
        return ""
