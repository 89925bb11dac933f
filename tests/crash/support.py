"""Workflows that the real program runs, and access to their files and events."""

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
#: Variable that marks the processes of a test. Its name does not start like wfctl's own variables,
#: because wfctl removes those from the environment of jobs.
MARK = "TEST_ROUND_OF_WFCTL"
#: Seconds after which a command counts as hanging, on a busy machine.
PATIENCE = 400.0


def environment(home: Path, sockets: str) -> dict[str, str]:
    """Return the environment of a test, with a mark that identifies its processes.

    The home folder accepts the host keys of the machines that tests start.
    """
    settings = home / ".ssh/config"
    settings.parent.mkdir(mode=0o700, exist_ok=True)
    settings.write_text("StrictHostKeyChecking accept-new\n")
    inherited = {k: v for k, v in os.environ.items() if k != "TMUX" and not k.startswith("WFCTL_")}
    own = {"HOME": str(home), "TMUX_TMPDIR": sockets, "PYTHONPATH": str(SOURCES)}
    return {**inherited, **own, MARK: uuid.uuid4().hex}


def unmarked(text: str) -> str:
    """Return the text with attempt names that have no random mark, only their number."""
    return re.sub(r"(att-[0-9]{4})-[0-9a-f]{8}", r"\1", text)


@dataclass(frozen=True)
class Workflow:
    """A workflow root, and the environment of its commands."""

    root: Path
    environ: dict[str, str]

    def init(self, *stages: Mapping[str, Any]) -> None:
        """Create the workflow from its stages."""
        self.plan(*stages)
        self.succeed("init", "plan.json", "--consent", "trust")

    def plan(self, *stages: Mapping[str, Any]) -> None:
        """Write the plan of a workflow with these stages."""
        plan = {"workflow_id": "w-crash", "purpose": "survive", "stages": stages}
        (self.root / "plan.json").write_text(json.dumps(plan))

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        """Start a command whose stderr is appended to a file next to the root."""
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
        """Run a command to its end, without a process that a test could find and kill."""
        own = {**self.environ, **environ}
        return forked.run(arguments, cwd=self.root, environ=own, timeout=PATIENCE)

    def succeed(self, *arguments: str, **environ: str) -> str:
        """Run a command, check that it exits with code 0, and return its output."""
        done = self.call(*arguments, **environ)
        assert done.returncode == 0, (arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def said(self) -> str:
        """Return the stderr of all started commands so far."""
        path = self.root.parent / "said"
        return path.read_text() if path.exists() else ""

    def stage(self, id_: str) -> dict[str, Any]:
        """Return a stage from the state file."""
        state = json.loads((self.root / "workflow-state.json").read_bytes())
        [found] = [stage for stage in state["stages"] if stage["id"] == id_]
        return dict(found)

    def events(self, type_: str) -> list[dict[str, Any]]:
        """Return the recorded events of a type."""
        printed = self.succeed("events", "--type", type_, "-o", "jsonl")
        return [json.loads(line) for line in printed.splitlines()]

    def committed(self, type_: str) -> int:
        """Return the number of committed events of a type without starting a process."""
        database = f"file:{self.root.as_posix()}/.wfctl/events.db?mode=ro"
        with closing(sqlite3.connect(database, uri=True)) as opened:
            query = "SELECT count(*) FROM events WHERE type = ?"
            return int(opened.execute(query, (type_,)).fetchone()[0])

    def trace(self) -> list[str]:
        """Return a line for each start of a command: the attempt without its random mark."""
        path = self.root / "trace"
        return unmarked(path.read_text()).splitlines() if path.exists() else []

    def attempts(self, stage: str) -> list[Path]:
        """Return the folders of the stage's attempts."""
        return sorted((self.root / stage / ".attempts").glob("att-*"))


def chain(seconds: float = 0.3) -> list[dict[str, Any]]:
    """Return three stages, each of which adds one to the number from the previous stage."""
    first = stage("stage-1", f"sleep {seconds}; echo 1 > out.txt", verify=_verifying(1))
    second = stage("stage-2", f"sleep {seconds}; {_add('stage-1')}", after="stage-1")
    third = stage(
        "stage-3", f"sleep {seconds}; {_add('stage-2')}", after="stage-2", verify=_verifying(3)
    )
    return [first, second, third]


def stage(id_: str, command: str, after: str | None = None, **parameters: Any) -> dict[str, Any]:
    """Return a stage whose command first writes a line with its attempt to the trace file."""
    # The path leads to the root: the command runs in the folder stage-N of its scratch copy, which
    # is below the folder of the attempt.
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
    """Wait until a condition is true, and fail the test if it stays false."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "what was waited for never came"
        time.sleep(0.005)


def is_written(path: Path) -> bool:
    """Return whether a file has content. A shell creates the file before it writes to it."""
    return path.exists() and path.stat().st_size > 0


@contextmanager
def ending(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Kill the process and close its pipes, however the block ends."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
