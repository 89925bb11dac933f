"""The outcome of a cell of the kill matrix, read from the log: verdicts, actions, executions."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from reconciler.evidence.evidence import Evidence
from reconciler.verdict.table import derive_verdict
from tests.crash.cells import Cell
from tests.crash.support import Workflow


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one cell of the kill matrix.

    ``verdicts`` has the number and the name of each row of the verdict table that applied, in
    order.
    """

    backend: str
    when: str
    target: str
    hit: tuple[str, ...]
    verdicts: tuple[str, ...]
    done: tuple[str, ...]
    executions: int
    attempts: int

    def to_json(self) -> str:
        """Return the outcome as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


def outcome_of(workflow: Workflow, cell: Cell, hit: list[str], before: int) -> Outcome:
    """Return the outcome from the log and the trace.

    Only events after the version ``before``, which is the version before the kill, are included.
    """
    seen = [e for e in workflow.events("attempt.observed") if e["version"] > before]
    return Outcome(
        backend=cell.backend,
        when=cell.when,
        target=cell.target,
        hit=tuple(hit),
        verdicts=tuple(f"{e['data']['row']} {e['data']['verdict']}" for e in seen),
        done=tuple(dict.fromkeys(e["data"]["action"] for e in seen)),
        executions=len(begun(workflow)),
        attempts=workflow.committed("attempt.started"),
    )


def version(workflow: Workflow) -> int:
    """Return the version of the newest event without starting a process."""
    database = f"file:{workflow.root.as_posix()}/.wfctl/events.db?mode=ro"
    with closing(sqlite3.connect(database, uri=True)) as opened:
        return int(opened.execute("SELECT max(version) FROM events").fetchone()[0])


def begun(workflow: Workflow) -> list[str]:
    """Return the attempts whose command started, in order."""
    return [line.split()[1] for line in workflow.trace() if line.startswith("begin ")]


def ended(workflow: Workflow) -> list[str]:
    """Return the attempts whose command ended."""
    return [line.split()[1] for line in workflow.trace() if line.startswith("end ")]


def check_executions(workflow: Workflow, cell: Cell) -> None:
    """Check that no command ran twice, in parallel, or again after it had completed."""
    starts = begun(workflow)
    expected = 2 if cell.ends_the_command else 1
    assert starts == [f"w-crash/stage-1/att-{n:04d}" for n in range(1, expected + 1)]
    assert ended(workflow) == starts[-1:]
    assert not any(line.startswith("beside ") for line in workflow.trace())


def check_result(workflow: Workflow) -> None:
    """Check that no failure was recorded and that the result is correct."""
    found = workflow.stage("stage-1")
    assert (found["status"], found["retry_count"], found["last_error"]) == ("completed", 0, None)
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n"
    assert workflow.committed("stage.failed") == 0
    workflow.succeed("fsck")


def check_verdicts(workflow: Workflow) -> None:
    """Check that the recorded evidence of each verdict gives the same verdict again."""
    for event in workflow.events("attempt.observed"):
        told = event["data"]
        found = derive_verdict(Evidence.from_dict(told["evidence"]))
        assert _words(found.to_dict()) == _words({**told, "name": told["verdict"]})


def _words(found: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(found[name] for name in ("row", "name", "action", "reason"))
