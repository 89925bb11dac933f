"""Write workflow folders in the original format (a state file and a log), and import them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cli.support import Answer, Place, call
from tests.need import HISTORIES, NO_HISTORIES, need, need_programs

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "adoption"
STATE, LOG = "workflow-state.json", "progress.log"

#: The seven real workflow states that the tests import, sorted by workflow and time.
STATES = [
    "bead-spring-rg/1-7726f15",
    "bead-spring-rg/2-22a6301",
    "bead-spring-rg/3-fb51e24",
    "bead-spring-rg/4-ed0c833",
    "bead-spring-rg/5-57815da",
    "bead-spring-rg-mpi-hpc/1-38aaa67",
    "bead-spring-rg-mpi-hpc/2-2b68b55",
]

#: A fixed time for the import, later than every event of the imported histories.
NOW = "2026-05-01T00:00:00.000000Z"


def history(name: str) -> Path:
    """Return the folder of a real history, or skip the test if it is not available."""
    folder = HISTORIES / name
    need(folder.is_dir(), f"{NO_HISTORIES} ({name})")
    return folder


def copied(source: Path, target: Path) -> Path:
    """Copy a folder, and make the copy writable."""
    shutil.copytree(source, target)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def stage(number: int, status: str = "pending", **more: Any) -> dict[str, Any]:
    """Return a stage that depends on the previous stage."""
    needs = [f"stage-{number - 1}"] if number > 1 else []
    return {
        "id": f"stage-{number}",
        "name": f"S{number}",
        "status": status,
        "depends_on": needs,
    } | more


def document(*stages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the content of a workflow state file with the given stages."""
    return {
        "workflow_id": "melt-2026-03-31",
        "version": 1,
        "created": "2026-03-31T10:00:00Z",
        "updated": "2026-03-31T12:00:00Z",
        "amendments": [],
        "default_backend": "local",
        "backend_profiles": {
            "local": {
                "type": "local",
                "config": {"batch_type": "Shell", "context_type": "LocalContext"},
            }
        },
        **more,
        "stages": list(stages) or [stage(1)],
    }


def write_files(folder: Path, state: Any, log: str | bytes = "") -> Path:
    """Write a state file and a log, and return the folder."""
    folder.mkdir(exist_ok=True)
    text = state if isinstance(state, str) else json.dumps(state, indent=2, ensure_ascii=False)
    (folder / STATE).write_text(text, "utf-8")
    (folder / LOG).write_bytes(log if isinstance(log, bytes) else log.encode())
    return folder


def log_of(*messages: str, start: int = 10) -> str:
    """Return a log with one minute between its lines, starting at ``start`` o'clock."""
    return "".join(
        f"[2026-03-31T{start + n // 60:02d}:{n % 60:02d}:00Z] {text}\n"
        for n, text in enumerate(messages)
    )


def import_(folder: Path, *arguments: str) -> Answer:
    """Run `wfctl import` on a folder in this process, with JSON output."""
    return call("import", str(folder), "-o", "json", *arguments)


def imported(folder: Path, *arguments: str) -> Place:
    """Import a folder, check that it succeeds, and return the root."""
    answer = import_(folder, "--consent", "trust", *arguments)
    assert answer.code == 0, answer
    return Place(folder)


def kinds(answer: Answer) -> list[str]:
    """Return the kinds of the findings in an answer of `wfctl import`."""
    return [finding["kind"] for finding in answer.data["findings"]]


def of_kind(answer: Answer, kind: str) -> list[tuple[str, int, str]]:
    """Return file, line and evidence of the findings of a kind."""
    return [
        (finding["file"], finding["line"], finding["evidence"])
        for finding in answer.data["findings"]
        if finding["kind"] == kind
    ]


def committed(folder: Path, sources: Sequence[Path]) -> Path:
    """Create a git repository with one commit for each state in ``sources``."""
    folder.mkdir()
    _git(folder, "init", "--quiet")
    for day, source in enumerate(sources, 3):
        for name in (STATE, LOG):
            shutil.copyfile(source / name, folder / name)
            (folder / name).chmod(0o644)
        commit(folder, f"2026-04-{day:02d}T00:00:00Z")
    return folder


def commit(folder: Path, date: str) -> None:
    """Commit the files with the given date."""
    _git(folder, "add", STATE, LOG)
    _git(folder, "commit", "--quiet", "--allow-empty", "-m", "state", date=date)


def git_identity(date: str = "2026-04-01T00:00:00Z") -> dict[str, str]:
    """Return the environment that sets the author and the date of git commits.

    Git refuses to commit for a user without a configured name.
    """
    fields = {"NAME": "A", "EMAIL": "a@example.org", "DATE": date}
    return {
        f"GIT_{role}_{field}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in fields.items()
    }


def _git(folder: Path, *arguments: str, date: str = "2026-04-01T00:00:00Z") -> None:
    need_programs("git")
    subprocess.run(
        ["git", "-c", "commit.gpgsign=false", *arguments],
        cwd=folder,
        env={**os.environ, **git_identity(date), "GIT_CONFIG_GLOBAL": os.devnull},
        check=True,
        capture_output=True,
    )
