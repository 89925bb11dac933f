"""Workflows that are run by the real program, and what they leave behind."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import forked

SOURCES = Path(__file__).parents[2]
#: Its name is not one of wfctl's own, which no job is given.
MARK = "TEST_ROUND_OF_WFCTL"
#: Seconds after which a command that has not ended hangs, on a machine that does much beside.
PATIENCE = 200.0


def environment(home: Path, sockets: str) -> dict[str, str]:
    """Return the environment of a round; every process of it can be told by its mark."""
    inherited = {k: v for k, v in os.environ.items() if k != "TMUX" and not k.startswith("WFCTL_")}
    own = {"HOME": str(home), "TMUX_TMPDIR": sockets, "PYTHONPATH": str(SOURCES)}
    return {**inherited, **own, MARK: uuid.uuid4().hex}


def unmarked(text: str) -> str:
    """Return a text with its attempts named as their number alone."""
    return re.sub(r"(att-[0-9]{4})-[0-9a-f]{8}", r"\1", text)


@dataclass(frozen=True)
class Workflow:
    """A workflow root and the environment that its commands run in."""

    root: Path
    environ: dict[str, str]

    def init(self, *stages: Mapping[str, Any]) -> None:
        """Make the workflow from its stages."""
        self.plan(*stages)
        self.succeed("init", "plan.json", "--consent", "trust")

    def plan(self, *stages: Mapping[str, Any]) -> None:
        """Write the plan of a workflow of these stages."""
        plan = {"workflow_id": "w-crash", "purpose": "survive", "stages": stages}
        (self.root / "plan.json").write_text(json.dumps(plan))

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        """Start a command; what it says on stderr goes to a file of its own process id."""
        program = [sys.executable, "-m", "cli.main", *arguments]
        with (self.root.parent / "said").open("a") as said:
            return subprocess.Popen(
                program,
                cwd=self.root,
                env={**self.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )

    def call(self, *arguments: str, **environ: str) -> forked.Ended:
        """Run a command to its end; nobody is to find it among the processes and kill it."""
        own = {**self.environ, **environ}
        return forked.run(arguments, cwd=self.root, environ=own, timeout=PATIENCE)

    def succeed(self, *arguments: str, **environ: str) -> str:
        """Run a command that must exit 0; return what it printed."""
        done = self.call(*arguments, **environ)
        assert done.returncode == 0, (arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def said(self) -> str:
        """Return what the commands that were started have said on stderr so far."""
        path = self.root.parent / "said"
        return path.read_text() if path.exists() else ""

    def stage(self, id_: str) -> dict[str, Any]:
        """Return a stage as the state file shows it."""
        state = json.loads((self.root / "workflow-state.json").read_bytes())
        [found] = [stage for stage in state["stages"] if stage["id"] == id_]
        return dict(found)

    def events(self, type_: str) -> list[dict[str, Any]]:
        """Return the recorded events of a type."""
        printed = self.succeed("events", "--type", type_, "-o", "jsonl")
        return [json.loads(line) for line in printed.splitlines()]

    def committed(self, type_: str) -> int:
        """Return how many events of a type are committed, without starting a process."""
        database = f"file:{self.root.as_posix()}/.wfctl/events.db?mode=ro"
        with closing(sqlite3.connect(database, uri=True)) as opened:
            query = "SELECT count(*) FROM events WHERE type = ?"
            return int(opened.execute(query, (type_,)).fetchone()[0])

    def trace(self) -> list[str]:
        """Return the attempts whose command was started, a line a start, without their marks."""
        path = self.root / "trace"
        return unmarked(path.read_text()).splitlines() if path.exists() else []

    def attempts(self, stage: str) -> list[Path]:
        """Return the folders of the stage's attempts."""
        return sorted((self.root / stage / ".attempts").glob("att-*"))


def chain(seconds: float = 0.3) -> list[dict[str, Any]]:
    """Return three stages, each of which adds one to what the one before it wrote."""
    first = stage("stage-1", f"sleep {seconds}; echo 1 > out.txt", verify=_verifying(1))
    second = stage("stage-2", f"sleep {seconds}; {_add('stage-1')}", after="stage-1")
    third = stage(
        "stage-3", f"sleep {seconds}; {_add('stage-2')}", after="stage-2", verify=_verifying(3)
    )
    return [first, second, third]


def stage(id_: str, command: str, after: str | None = None, **parameters: Any) -> dict[str, Any]:
    """Return a stage whose command leaves a line in the trace before anything else."""
    # The command runs in stage-N below the attempt's scratch copy below the attempt's folder.
    traced = f'echo "$WFCTL_ATTEMPT" >> ../../../../../../trace; {command}'
    return {
        "id": id_,
        "name": f"the {id_}",
        "depends_on": [after] if after else [],
        "inputs": [f"{after}/out.txt"] if after else [],
        "outputs": [f"{id_}/out.txt"],
        "parameters": {"command": traced, **parameters},
    }


def _add(earlier: str) -> str:
    return f"echo $(( $(cat ../{earlier}/out.txt) + 1 )) > out.txt"


def _verifying(value: int) -> str:
    return f"touch verifying; sleep 0.3; grep -qx {value} $WFCTL_STAGE/out.txt"


def until(holds: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until something holds; fail the test where it never does."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "what was waited for never came"
        time.sleep(0.005)


def is_written(path: Path) -> bool:
    """Whether a file holds something: a shell makes it first, and writes into it then."""
    return path.exists() and path.stat().st_size > 0


@contextmanager
def ending(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Leave no zombie and no open pipe of a process, however the block ends."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
