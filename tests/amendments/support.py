"""Support for amendment tests: workflows, signing keys, and rows inserted with SQL."""

from __future__ import annotations

import copy
import json
import sqlite3
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.support import Place as Root
from tests.cli.support import agree, attempt_data, call, write_plan
from tests.need import need_programs

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "outputs": ["stage-1/out.txt"],
            "parameters": {"command": "echo $WFCTL_PARAM_n > out.txt", "n": 1},
            "success_criteria": "",
        },
        {
            "id": "stage-2",
            "name": "Run",
            "depends_on": ["stage-1"],
            "outputs": ["stage-2/out.txt"],
            "parameters": {"command": "echo hi > out.txt", "resource_overrides": {"cpu": 1}},
        },
        {"id": "stage-3", "name": "Look", "depends_on": ["stage-2"]},
    ],
}
LONGER = ("--stage", "stage-1", "--set", "parameters.n=2", "--reason", "too short")


class Keys(NamedTuple):
    """The keys of an allowed signer and of a stranger, and the file of allowed signers."""

    allowed: Path
    stranger: Path
    signers: Path


class Place(Root):
    """A workflow root with methods for amendments."""

    def finish(self, *stages: str) -> None:
        """Complete the stages without running their commands."""
        for stage in stages:
            number = f"att-{self.attempts(stage) + 1:04d}"
            self.done("append", "attempt.started", "--data", attempt_data(stage))
            ended = {"stage": stage, "attempt": number, "exit_code": 0}
            self.done("append", "stage.computed", "--data", json.dumps(ended))
            looked = {"stage": stage, "evidence": "looked at it"}
            self.done("append", "stage.completed", "--data", json.dumps(looked))

    def attempts(self, stage: str) -> int:
        """Return the number of attempts of the stage."""
        return len(self.done("show", stage)["attempts"])

    def propose(self, *words: str) -> dict[str, Any]:
        """Propose an amendment, and return the data of the answer."""
        found: dict[str, Any] = self.done("amend", "propose", *words)
        return found

    def approve(self, id_: str = "amend-1", *words: str) -> list[str]:
        """Approve an amendment, and return the types of the recorded events."""
        return [e["type"] for e in self.done("amend", "approve", id_, *words)["events"]]

    def statuses(self) -> list[str]:
        """Return the statuses of the stages in the order of the plan."""
        return [stage["status"] for stage in self.done("status")["stages"]]

    def document(self) -> dict[str, Any]:
        """Return the workflow document (plan and status), computed from all events."""
        found: dict[str, Any] = self.done("replay")
        return found

    def definition(self) -> Any:
        """Return the fields that only an amendment may change, and the recorded amendments."""
        document = self.document()
        names = ("name", "depends_on", "inputs", "parameters", "success_criteria", "backend")
        stages = [{n: stage[n] for n in ("id", "status", *names)} for stage in document["stages"]]
        return copy.deepcopy([document["version"], document["amendments"], stages])

    def bypasses(self) -> list[dict[str, Any]]:
        """Return the bypasses of consent that the audit lists."""
        found: list[dict[str, Any]] = self.json("audit", "bypasses").data
        return found

    def database(self) -> sqlite3.Connection:
        """Open the database directly, without wfctl."""
        return sqlite3.connect(self.path / ".wfctl/events.db", isolation_level=None)

    def last(self) -> dict[str, Any]:
        """Return the last event envelope of the log, with the hash of its row."""
        with self.database() as database:
            body, hash_ = database.execute(
                "SELECT body, hash FROM events ORDER BY position DESC LIMIT 1"
            ).fetchone()
        return {**json.loads(body), "hash": hash_}

    def write_row(self, type_: str, data: dict[str, Any], **envelope: Any) -> None:
        """Insert an event with a valid hash chain directly into the database."""
        last = self.last()
        body = {k: v for k, v in last.items() if k != "hash"}
        number = last["version"] + 1
        body |= {"type": type_, "data": data, "version": number, "prev_hash": last["hash"]}
        own = f"forged-{number}"
        body |= {"event_id": own, "command_id": own, "schema_version": 1, **envelope}
        text = canonical(body)
        with self.database() as database:
            (position,) = database.execute("SELECT max(position) FROM events").fetchone()
            database.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'forged')",
                (
                    position + 1,
                    body["stream"],
                    number,
                    body["event_id"],
                    type_,
                    body["recorded_at"],
                    sha256(text.encode()).hexdigest(),
                    text,
                ),
            )

    def edit_rows(self, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        """Rewrite all events with a valid hash chain, after removing the triggers."""
        with self.database() as database:
            for trigger in ("update", "delete"):
                database.execute(f"DROP TRIGGER IF EXISTS events_no_{trigger}")
            rows = database.execute("SELECT body FROM events ORDER BY position").fetchall()
            database.execute("DELETE FROM events")
        bodies = edit([json.loads(row[0]) for row in rows])
        previous = "0" * 64
        with self.database() as database:
            for number, body in enumerate(bodies, 1):
                body |= {"version": number, "prev_hash": previous}
                text = canonical(body)
                previous = sha256(text.encode()).hexdigest()
                fields = (body["stream"], number, body["event_id"], body["type"])
                row = (number, *fields, body["recorded_at"], previous, text)
                database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)", row)


def canonical(value: Any) -> str:
    """Return canonical JSON: sorted keys and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def make(path: Path, *words: str, plan: Any = None, agreed: bool = True) -> Place:
    """Create a workflow root, and approve its plan, by the key of the signers if given."""
    path.mkdir(exist_ok=True)
    source = write_plan(path.parent, PLAN if plan is None else plan)
    answer = call("--root", str(path), "init", str(source), *words)
    assert answer.code == 0, answer
    if agreed and "trust" not in words:
        signers = words[words.index("--signers") + 1] if "--signers" in words else None
        agree(path, Path(signers).with_name("allowed") if signers else None)
    return Place(path)


def make_keys(folder: Path) -> Keys:
    """Create two SSH keys, and a file that allows only the first."""
    need_programs("ssh-keygen")
    for name in ("allowed", "stranger"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name],
            check=True,
            stdin=subprocess.DEVNULL,
        )
    signers = folder / "signers"
    signers.write_text(f"pi@example.org {(folder / 'allowed.pub').read_text()}")
    return Keys(folder / "allowed", folder / "stranger", signers)


def sign(statement: str, key: Path, folder: Path, namespace: str = "wfctl") -> Path:
    """Sign a statement with ssh-keygen, and return the path of the signature."""
    path = folder / "statement"
    path.write_text(statement, "utf-8")
    (folder / "statement.sig").unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", namespace, path], check=True)
    return folder / "statement.sig"
