"""Record which modules each command loads, in a separate process.

``python -m tests.cli.imports`` updates the lists. A new module slows down every call of the
command, so give the reason in the commit message.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from cli.program.pydantic_plugins import LOADER
from tests.cli.support import HERE, Place, call, write_plan

ON_FILE = Path(__file__).parent / "imports.json"

READS: dict[str, list[str]] = {
    "--version": ["--version"],
    "--help": ["note", "--help"],
    "status": ["status"],
    "status -o json": ["status", "-o", "json"],
    "show": ["show", "stage-1"],
    "log": ["log"],
    "events": ["events"],
    "why": ["why", "stage-2"],
    "rehydrate": ["rehydrate"],
}
#: Command → its command line, and the pydantic models that it builds for its events. Events with
#: flat data need no model.
WRITES: dict[str, tuple[list[str], list[str]]] = {
    "note": (["note", "hi"], []),
    "append": (["append", "note.logged", "--data", '{"text": "hi"}'], []),
    "stage": (["stage", "prepare", "stage-1"], []),
    "amend propose": (
        ["amend", "propose", "--stage", "stage-2", "--set", "parameters.dt=1", "--reason", "so"],
        ["amendment.proposed"],
    ),
}

#: The number of times that a command opens each file of its root.
#: SQLite opens a database once for each connection.
OPENED: dict[str, dict[str, int]] = {
    "status": {
        "config.toml": 1,
        "events.db": 1,
        "events.db-wal": 1,
        "marks.json": 1,
        "plan-file.json": 1,
        "progress.log": 1,
        "root.json": 1,
        "sync.json": 2,
        "workflow-state.json": 1,
    },
    # The second connection is read-only. If it closes last, SQLite does not copy its write-ahead
    # log into the database.
    "note": {
        ".wfctl": 1,
        "config.toml": 1,
        "events.db": 2,
        "events.db-lock": 1,
        "events.db-queue": 1,
        "lock": 1,
        "progress.log": 2,
        ".": 1,
        "root.json": 1,
        "sync.json": 3,
        "workflow-state.json": 4,
    },
}

#: Script that runs a command line, and reports the modules, event models and files that the command
#: loaded. It does not report modules that the interpreter loads before the program starts.
_PROGRAM = """
import sys
before = set(sys.modules)
import json, os
opened = []
def hear(event, arguments):
    if event in ("open", "sqlite3.connect"):
        opened.append(str(arguments[0]))
sys.addaudithook(hear)
from cli.main import run
code = run(sys.argv[2:])
sys.stdout.flush()
base = sys.modules.get("lifecycle.payload.base")
def below(kind):
    for one in kind.__subclasses__():
        yield one
        yield from below(one)
built = [] if base is None else [
    m.type for m in below(base.Payload) if m.__pydantic_complete__ and "type" in vars(m)]
with open(sys.argv[1], "w") as file:
    modules = sorted(set(sys.modules) - before)
    said = {"code": code, "modules": modules, "built": sorted(built), "opened": opened}
    json.dump(said, file)
"""


class Loaded:
    """The modules, event models and files of one call of a command."""

    def __init__(self, root: Path, line: list[str]) -> None:
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as answer:
            done = subprocess.run(
                [sys.executable, "-c", _PROGRAM, answer.name, "--root", str(root), *line],
                env={**os.environ, "PYTHONPATH": str(HERE)},
                capture_output=True,
                text=True,
                check=True,
                timeout=120,
            )
            said = json.load(answer)
        assert said["code"] == 0, done
        self.built: list[str] = said["built"]
        #: The opened files of the root, each with the number of times that it was opened.
        self.opened = Counter(_plain(name, root) for name in said["opened"] if str(root) in name)
        said["modules"].remove(LOADER)  # the stand-in module loads nothing itself
        self.packages = {name.partition(".")[0] for name in said["modules"]}
        #: The loaded modules: full names for modules of wfctl, and top-level names for other
        #: packages.
        self.names = {
            name if name.partition(".")[0] in PACKAGES else name.partition(".")[0]
            for name in said["modules"]
            if name.partition(".")[0] not in _OF_PYTHON and not name.startswith("_")
        }


def _plain(opened: str, root: Path) -> str:
    """Return the final name of a file that wfctl may create under a temporary name."""
    if opened == str(root):
        return "."
    name = opened.partition("?")[0].rpartition("/")[2]
    return re.sub(r"\A\.(.+)\.[0-9a-f]{16}\.tmp\Z", r"\1", name)


PACKAGES = frozenset(
    {
        "cli",
        "eventstore",
        "extensions",
        "lifecycle",
        "migrations",
        "projections",
        "reconciler",
        "service",
        "wfctl_eventstore",
        "wording",
    }
)
_OF_PYTHON = sys.stdlib_module_names


def lines() -> dict[str, list[str]]:
    """Return the command lines to measure, each with the name of its list of modules."""
    return READS | {name: line for name, (line, _) in WRITES.items()}


def a_root(folder: Path) -> Place:
    """Create a workflow of two stages in a folder."""
    answer = call("--root", str(folder), "init", str(write_plan(folder)), "--consent", "trust")
    assert answer.code == 0, answer
    return Place(folder)


def _write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = a_root(Path(folder))
        found = {name: sorted(Loaded(place.path, line).names) for name, line in lines().items()}
    ON_FILE.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    _write()
