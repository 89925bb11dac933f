"""Call wfctl as a user does, and inspect the results."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from cli.main import run as run_line
from tests import forked

HERE = Path(__file__).resolve().parents[2]

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "purpose": "See it melt.",
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "outputs": ["stage-1/out.txt"],
            "parameters": {"command": "echo hi > out.txt"},
        },
        {"id": "stage-2", "name": "Run", "depends_on": ["stage-1"]},
    ],
}


class Answer(NamedTuple):
    """The exit code and the output of one call."""

    code: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        """Return standard output parsed as a single JSON document."""
        value: dict[str, Any] = json.loads(self.out)
        return value

    @property
    def data(self) -> Any:
        """Return the data of a successful answer."""
        assert self.envelope["success"] is True, self.out
        return self.envelope["data"]

    @property
    def error(self) -> dict[str, Any]:
        """Return the error of a failed answer."""
        assert self.envelope["success"] is False, self.out
        found: dict[str, Any] = self.envelope["error"]
        return found


def wfctl(
    *arguments: str,
    cwd: Path | None = None,
    stdin: str = "",
    environ: Mapping[str, str] | None = None,
    within: float = 120,
) -> Answer:
    """Run wfctl in a separate process, forked from a started interpreter where possible."""
    environ = {**os.environ, "PYTHONPATH": str(HERE), **(environ or {})}
    done = forked.run(arguments, cwd=cwd, environ=environ, stdin=stdin, timeout=within)
    return Answer(done.returncode, done.stdout, done.stderr)


def call(*arguments: str) -> Answer:
    """Run a wfctl command in this process, which saves the start of a Python interpreter."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run_line(list(arguments))
    return Answer(code, out.getvalue(), err.getvalue())


class Place:
    """A workflow root, and methods to run commands in the root."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def call(self, *arguments: str) -> Answer:
        """Run a wfctl command on this root, within this process."""
        return call("--root", str(self.path), *arguments)

    def json(self, *arguments: str) -> Answer:
        """Call a command in this root with JSON output, within this process."""
        return self.call("-o", "json", *arguments)

    def done(self, *arguments: str) -> Any:
        """Call a command in this root, check that it succeeds, and return its data."""
        answer = self.json(*arguments)
        assert answer.code == 0, answer
        return answer.data

    def version(self) -> int:
        """Return the current version of the log."""
        found: int = self.json("status").envelope["_meta"]["version"]
        return found

    def types(self, *arguments: str) -> list[str]:
        """Return the types of the recorded events."""
        return [event["type"] for event in self.done("events", *arguments)]

    def log(self) -> str:
        """Return the content of progress.log."""
        return (self.path / "progress.log").read_text("utf-8")

    def notes(self) -> list[str]:
        """Return the texts of the recorded notes."""
        return [e["data"]["text"] for e in self.done("events", "--type", "note.logged")]


def agree(root: Path, key: Path | None = None) -> None:
    """Approve the plan of a workflow, as a person who types `init` at a terminal does."""
    from cli.frame.approve_plan import approve_typed_plan
    from eventstore.event import Actor
    from service.root.root import open_root

    found, _ = open_root(root, os.environ.get("WFCTL_DATABASE_URL"))
    assert approve_typed_plan(found, Actor("user", "pi"), "wfctl init", key) is not None


def write_plan(folder: Path, plan: Any = None, name: str = "plan.json") -> Path:
    """Write a plan as JSON and return its path."""
    path = folder / name
    path.write_text(json.dumps(PLAN if plan is None else plan), "utf-8")
    return path


def tree(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder, and a dash for each folder."""
    return {
        str(path.relative_to(folder)): "-"
        if path.is_dir()
        else sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
    }


def attempt_data(stage: str = "stage-1", **more: Any) -> str:
    """Return the data of an event `attempt.started` as JSON."""
    fields = {
        "stage": stage,
        "mode": "sync",
        "root": "/somewhere",
        "work_dir": f"{stage}/work",
        "submission": f"{stage}/submission.json",
        "submission_sha256": "0" * 64,
        "wrapper": f"{stage}/dpdisp-run.sh",
    }
    return json.dumps({**fields, **more})
